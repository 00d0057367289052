/**
 * Two means over the same cases: who is better where, and how sure that is.
 *
 * Cases are what is counted, and compared in pairs: what makes a case hard is hard for both and falls out of the difference. The interval of
 * the mean difference is the one of `interval.ts` over the pairs. Knows nothing of what the cases are.
 * Source: Miller 2024, "Adding error bars to evals" (paired differences).
 */
import { differ } from '../differ.js'
import { type Interval, meanInterval } from './interval.js'

/** One case under both. */
export interface PairOfMeans {
  readonly rewards: readonly [number, number]
}

/** Of the second against the first. */
export interface PairedMeans {
  readonly wins: number
  readonly ties: number
  readonly losses: number
  readonly rewards: readonly [number, number]
  /** Mean of second minus first. */
  readonly difference: number
  readonly interval: Interval | null
}

export function comparePairs(pairs: readonly PairOfMeans[]): PairedMeans {
  const differences = pairs.map(differenceOf)
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length)
  return {
    wins: pairs.filter((pair) => outcomeOf(pair) === 'better').length,
    ties: pairs.filter((pair) => outcomeOf(pair) === 'same').length,
    losses: pairs.filter((pair) => outcomeOf(pair) === 'worse').length,
    rewards: [mean(pairs.map(({ rewards }) => rewards[0])), mean(pairs.map(({ rewards }) => rewards[1]))],
    difference: mean(differences),
    interval: meanInterval(differences, null),
  }
}

/** The second one against the first; rounding makes no difference. */
export function outcomeOf(pair: PairOfMeans): 'better' | 'worse' | 'same' {
  if (!differ(pair.rewards)) return 'same'
  return differenceOf(pair) > 0 ? 'better' : 'worse'
}

/** What got worst first. */
export function byDifference(a: PairOfMeans, b: PairOfMeans): number {
  return differenceOf(a) - differenceOf(b)
}

function differenceOf({ rewards: [first, second] }: PairOfMeans): number {
  return second - first
}
