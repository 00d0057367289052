/**
 * What jobs trained on, by the addresses that show it.
 */
import type { ListRolloutGroupsQuery } from '#contract/wire/training/rollouts.js'

/** The API's path of a job, and of what it trained on. */
export function jobApi(id: string, below = ''): string {
  return `/v1/preview/training-jobs/${encodeURIComponent(id)}${below}`
}

/** The page's path of the same. */
export function groupsPath(id: string, below = ''): string {
  return `/jobs/${encodeURIComponent(id)}/groups${below}`
}

/** What of an address chooses groups: its own names are the API's. */
const CHOICES = [
  'sort',
  'min_reward',
  'max_reward',
  'trained',
] as const satisfies readonly (keyof ListRolloutGroupsQuery)[]

/** The API's query of what an address chooses; without a question mark. */
export function choiceOf(query: URLSearchParams): string {
  const chosen = new URLSearchParams()
  for (const name of CHOICES) {
    const value = query.get(name)
    if (value !== null && value !== '') chosen.set(name, value)
  }
  return chosen.toString()
}

/** Reasons of the API as sentences. */
const REASONS: Readonly<Record<string, string>> = {
  single_trajectory: 'alone in its group',
  equal_rewards: 'equal rewards',
  reward_is_mean: 'its reward is the mean',
  overlength: 'too long',
  no_logprobs: 'no log-probabilities',
  masked_truncated: 'cut off, and masked',
  greedy: 'sampled at temperature 0',
  unknown_token_text: 'unknown tokens',
  empty_completion: 'empty answer',
  unsupported_exchange: 'exchange without tokens',
  left_out_message: 'message the template leaves out',
  unrenderable: 'the template refuses it',
  no_trainable_turn: 'nothing to train on',
}

export function reasonOf(word: string): string {
  return REASONS[word] ?? word.replaceAll('_', ' ')
}
