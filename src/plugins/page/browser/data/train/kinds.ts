/**
 * The kinds of jobs as the form of one says them: what their rows are, and where a request goes. Of their options nothing is known here.
 */
import type { JobKind } from '#contract/wire/job-words.js'

export interface KindOfJob {
  readonly title: string
  /** What the data is. */
  readonly rows: string
  readonly example: string
  /** Where its request goes. */
  readonly path: string
  /** Groups are part of the request; rows are a file that it names. */
  readonly data: 'groups' | 'rows'
  /** What its rows have to say, in their order. */
  readonly answers: readonly string[]
}

export const KINDS: Readonly<Record<JobKind, KindOfJob>> = {
  rl: {
    title: 'Rewards',
    rows: 'JSON Lines of trajectory groups with rewards, as trainyard rollout writes them',
    example: '{"trajectories":[{"messages_and_choices":[…],"reward":1}, …]}',
    path: '/v1/preview/training-jobs',
    data: 'groups',
    answers: [],
  },
  sft: {
    title: 'Examples',
    rows: 'JSON Lines of conversations that end with the answer to learn',
    example: '{"messages":[{"role":"user","content":"…"},{"role":"assistant","content":"…"}]}',
    path: '/v1/preview/sft-training-jobs',
    data: 'rows',
    answers: ['Wanted answer'],
  },
  dpo: {
    title: 'Preferences',
    rows: 'JSON Lines of a prompt with a better and a worse answer',
    example: '{"prompt":"…","chosen":"…","rejected":"…"}',
    path: '/v1/preview/dpo-training-jobs',
    data: 'rows',
    answers: ['Chosen', 'Rejected'],
  },
}

/** What the form shows first. */
export const FIRST_KIND: JobKind = 'sft'
