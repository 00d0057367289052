/**
 * Compares two models on the same prompts: which one is better where, and how sure that is, by the mean reward of each prompt's
 * answers. The statistics are those of `base/statistics/paired.ts`; the server uses the same for what was logged.
 */
import { byDifference, comparePairs, outcomeOf, type PairedMeans } from '#base/statistics/paired.js'
import type { TrajectoryGroup } from '#sdk/rl/trajectory.js'
import { type Example, examplesOf } from './examples.js'
import type { PromptRow } from './prompt-file.js'

/** One prompt: the first answers of both, and the mean rewards of all of them. */
export interface Pair {
  readonly first: Example
  readonly second: Example
  readonly rewards: readonly [number, number]
}

interface Comparison extends PairedMeans {
  /** Prompts that both answered. */
  readonly prompts: number
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
  return {
    prompts: pairs.length,
    ...comparePairs(pairs),
    pairs: pairs.filter((pair) => outcomeOf(pair) !== 'same').sort(byDifference),
  }
}
