/**
 * What the answers of trajectory groups say before anything is trained on them: rewards, how alike they are, which were cut off,
 * which labels they are. As figures of a job's report, so that jobs can be compared with each other later.
 *
 * Knows no wire form: whoever has groups (worker, library, command line) hands over texts and rewards.
 */

import { differ } from '#base/differ.js'
import { type AdvantageEstimator, countTraining } from '#formats/rows/which-train.js'

/** Figures of a job by topic, as its report keeps them. */
export type Facts = Readonly<Record<string, Readonly<Record<string, number>>>>

/** One trajectory of a group. */
export interface GivenAnswer {
  /** Its last answer; empty for none. */
  readonly text: string
  readonly reward: number
  /** Which part of what it can earn that is, from 0 to 1; absent where nobody knows the range of the reward. */
  readonly share?: number | undefined
  /** Whether the length limit ended it. */
  readonly isCut: boolean
  /** Its tokens, where they are known. */
  readonly tokens?: number | undefined
  /** Whether it calls a tool that it was not offered; default false. */
  readonly isUnoffered?: boolean
}

/** Answers to the same prompt. */
export type AnsweredGroup = readonly GivenAnswer[]

/** Longest answer that may be a label, characters. */
const LABEL_CHARACTERS = 40
/** Most labels that a task has; more different answers are no labels. */
const MAX_LABELS = 12
/** Least share of the answers that the frequent ones cover where a task has labels. */
const LABEL_COVERAGE = 0.8
/** Least share of all answers that makes an answer a label. */
const LABEL_SHARE = 0.02
/** Fewer answers show no shares. */
const MIN_ANSWERS = 32
/** Characters of an answer that a sentence quotes. */
const QUOTED_CHARACTERS = 60

/**
 * Counts the answers.
 *
 * @param estimator of the job that trains on them; default `group`
 * @returns `groups` (total, flat: those that do not train), `reward` (mean, std_dev: mean deviation inside groups, min, max, standard_error: of the
 *   mean, by groups; where its range is known `share`, `least_share` and `most_share` of it), `answers` (total, distinct: mean
 *   share of different answers in a group, cut, cut_at: tokens of the longest of those, cut_reward, whole_reward, unoffered:
 *   they call a tool not offered), `labels`
 *   (share of all answers that are this one and earned more than the least reward; only where nearly all answers are a few short ones)
 */
export function answerFacts(groups: readonly AnsweredGroup[], estimator?: AdvantageEstimator): Facts {
  const answers = groups.flat()
  if (answers.length === 0) return { groups: { total: groups.length, flat: groups.length } }
  const rewards = answers.map(({ reward }) => reward)
  const filled = groups.filter((group) => group.length > 0)
  const means = filled.map((group) => mean(group.map(({ reward }) => reward)))
  const several = filled.filter((group) => group.length > 1)
  const cut = answers.filter(({ isCut }) => isCut)
  const whole = answers.filter(({ isCut }) => !isCut)
  const least = rewards.reduce((a, b) => Math.min(a, b))
  const labels = labelShares(answers, least)
  const shares = answers.flatMap(({ share }) => share ?? [])
  const cutAt = cut.reduce((longest, { tokens = 0 }) => Math.max(longest, tokens), 0)
  const unoffered = answers.filter(({ isUnoffered }) => isUnoffered === true).length
  return {
    groups: { total: groups.length, flat: groups.length - countTraining(rewardsOf(groups), estimator) },
    reward: {
      mean: mean(rewards),
      std_dev: several.length === 0 ? 0 : mean(several.map((group) => deviation(group.map((each) => each.reward)))),
      min: least,
      max: rewards.reduce((a, b) => Math.max(a, b)),
      standard_error: means.length < 2 ? 0 : deviation(means) / Math.sqrt(means.length - 1),
      ...(shares.length < answers.length
        ? {}
        : {
            share: mean(shares),
            least_share: shares.reduce((a, b) => Math.min(a, b)),
            most_share: shares.reduce((a, b) => Math.max(a, b)),
          }),
    },
    answers: {
      total: answers.length,
      ...(several.length === 0
        ? {}
        : { distinct: mean(several.map((group) => new Set(group.map(({ text }) => text)).size / group.length)) }),
      cut: cut.length,
      ...(cutAt === 0 ? {} : { cut_at: cutAt }),
      ...(unoffered === 0 ? {} : { unoffered }),
      ...(cut.length === 0 ? {} : { cut_reward: mean(cut.map(({ reward }) => reward)) }),
      ...(whole.length === 0 ? {} : { whole_reward: mean(whole.map(({ reward }) => reward)) }),
    },
    ...(labels === null ? {} : { labels }),
  }
}

/** Whether one of an answer's calls names a tool that was not offered; both lists as requests and answers have them. */
export function callsUnoffered(calls: unknown, tools: unknown): boolean {
  const offered = new Set(namesOf(tools))
  return namesOf(calls).some((name) => !offered.has(name))
}

function namesOf(list: unknown): string[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((each: unknown) => {
    const { name } = ((each as { function?: unknown } | null)?.function ?? each ?? {}) as { name?: unknown }
    return typeof name === 'string' ? [name] : []
  })
}

const rewardsOf = (groups: readonly AnsweredGroup[]): number[][] =>
  groups.map((group) => group.map(({ reward }) => reward))

/** Shares of the answers that earned something, by their text; null where answers are no labels. */
function labelShares(answers: readonly GivenAnswer[], least: number): Readonly<Record<string, number>> | null {
  if (answers.length < MIN_ANSWERS) return null
  const counts = new Map<string, { said: number; earned: number }>()
  for (const { text, reward } of answers) {
    const label = text.trim()
    const count = counts.get(label) ?? { said: 0, earned: 0 }
    counts.set(label, { said: count.said + 1, earned: count.earned + (reward > least ? 1 : 0) })
  }
  const frequent = [...counts].filter(
    ([label, { said }]) =>
      label !== '' && label.length <= LABEL_CHARACTERS && !label.includes('\n') && said >= LABEL_SHARE * answers.length,
  )
  const covered = frequent.reduce((sum, [, { said }]) => sum + said, 0)
  if (frequent.length > MAX_LABELS || covered < LABEL_COVERAGE * answers.length) return null
  return Object.fromEntries(frequent.map(([label, { earned }]) => [label, earned / answers.length]))
}

/** Two answers of a group whose rewards are equal, as a sentence ends with them; empty where no group has any. */
export function quoteEqual(groups: readonly AnsweredGroup[]): string {
  const flat = groups.find((group) => group.length > 1 && !differ(group.map(({ reward }) => reward)))
  const [first] = flat ?? []
  if (flat === undefined || first === undefined) return ''
  const other = flat.find(({ text }) => text.trim() !== first.text.trim())
  const worth = Number(first.reward.toPrecision(3))
  return other === undefined
    ? `; every one of ${flat.length} answers to one prompt is ${quote(first.text)}, worth ${worth}`
    : `; for example ${quote(first.text)} and ${quote(other.text)} to one prompt, both worth ${worth}`
}

/** On one line, shortened. */
export function quote(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, ' ')
  const characters = [...line]
  const isLong = characters.length > QUOTED_CHARACTERS
  return JSON.stringify(isLong ? `${characters.slice(0, QUOTED_CHARACTERS).join('')}…` : line)
}

function mean(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0)
  if (Number.isFinite(sum)) return sum / values.length
  return values.reduce((total, value) => total + value / values.length, 0)
}

/** Population standard deviation. */
function deviation(values: readonly number[]): number {
  const centre = mean(values)
  return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)))
}
