/**
 * Two models at the same prompts: who is better where, and how sure that is.
 *
 * Prompts are what is counted, each by the mean reward of its answers, and compared in pairs: what makes a prompt hard is hard for both and
 * falls out of the difference. The interval of the mean difference is the one of `interval.ts` over the pairs.
 * Source: Miller 2024, "Adding error bars to evals" (paired differences).
 */
import { differ } from '#base/differ.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { type Example, examplesOf } from './examples.js'
import { type Interval, meanInterval } from './interval.js'
import type { PromptRow } from './prompt-file.js'

/** One prompt: the first answers of both, and the mean rewards of all of them. */
export interface Pair {
  readonly first: Example
  readonly second: Example
  readonly rewards: readonly [number, number]
}

export interface Comparison {
  /** Prompts that both answered. */
  readonly prompts: number
  /** Of the second model against the first. */
  readonly wins: number
  readonly ties: number
  readonly losses: number
  readonly rewards: readonly [number, number]
  /** Mean of second minus first. */
  readonly difference: number
  readonly interval: Interval | null
  /** By the difference, the second model's worst first; without ties. */
  readonly pairs: readonly Pair[]
}

/** @param groups of both models, one a row; a prompt that one of them failed to answer is left out */
export function compareGroups(
  groups: readonly [readonly TrajectoryGroup[], readonly TrajectoryGroup[]],
  rows: readonly PromptRow[],
): Comparison {
  const pairs = rows.flatMap((row, i): readonly Pair[] => {
    const [a, b] = [groups[0][i], groups[1][i]]
    const [was, is] = [a?.meanReward ?? null, b?.meanReward ?? null]
    if (a === undefined || b === undefined || was === null || is === null) return []
    const [first, second] = [examplesOf([a], [row])[0], examplesOf([b], [row])[0]]
    return first === undefined || second === undefined ? [] : [{ first, second, rewards: [was, is] }]
  })
  const differences = pairs.map(differenceOf)
  const isTie = ({ rewards }: Pair): boolean => !differ(rewards)
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
  return {
    prompts: pairs.length,
    wins: pairs.filter((pair) => !isTie(pair) && differenceOf(pair) > 0).length,
    ties: pairs.filter(isTie).length,
    losses: pairs.filter((pair) => !isTie(pair) && differenceOf(pair) < 0).length,
    rewards: [mean(pairs.map(({ rewards }) => rewards[0])), mean(pairs.map(({ rewards }) => rewards[1]))],
    difference: mean(differences),
    interval: meanInterval(differences),
    pairs: pairs.filter((pair) => !isTie(pair)).sort((a, b) => differenceOf(a) - differenceOf(b)),
  }
}

function differenceOf({ rewards: [first, second] }: Pair): number {
  return second - first
}
