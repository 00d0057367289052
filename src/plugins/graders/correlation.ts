/**
 * How alike two lists of numbers are: their correlation, as they are (Pearson's) or by their ranks (Spearman's), with its 95%
 * interval.
 *
 * Sources: Fisher 1915 (the interval by the inverse hyperbolic tangent); Bonett and Wright 2000, "Sample size requirements for
 * estimating Pearson, Kendall and Spearman correlations" (its width for ranks). Equal values share the mean of their ranks.
 */
import type { Interval } from '#base/statistics/interval.js'

export interface Correlation {
  readonly value: number
  /** Null for fewer than four pairs. */
  readonly interval: Interval | null
}

const Z = 1.959963984540054

/** @returns null where one list does not vary */
export function pearson(a: readonly number[], b: readonly number[]): Correlation | null {
  const value = correlate(a, b)
  return value === null ? null : { value, interval: intervalOf(value, a.length, 1) }
}

/** @returns null where one list does not vary */
export function spearman(a: readonly number[], b: readonly number[]): Correlation | null {
  const value = correlate(ranksOf(a), ranksOf(b))
  return value === null ? null : { value, interval: intervalOf(value, a.length, 1 + value ** 2 / 2) }
}

function correlate(a: readonly number[], b: readonly number[]): number | null {
  const [left, right] = [centred(a), centred(b)]
  const sum = (x: readonly number[], y: readonly number[]): number =>
    x.reduce((all, each, i) => all + each * (y[i] ?? 0), 0)
  const scale = Math.sqrt(sum(left, left) * sum(right, right))
  // beside rounding, a product of deviations this small is of lists that do not vary
  return scale > Number.EPSILON ? Math.max(-1, Math.min(1, sum(left, right) / scale)) : null
}

function centred(values: readonly number[]): readonly number[] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return values.map((value) => value - mean)
}

function intervalOf(value: number, count: number, variance: number): Interval | null {
  if (count < 4) return null
  const half = Z * Math.sqrt(variance / (count - 3))
  const middle = Math.atanh(value)
  return Number.isFinite(middle) ? [Math.tanh(middle - half), Math.tanh(middle + half)] : [value, value]
}

function ranksOf(values: readonly number[]): readonly number[] {
  const order = values.map((_, i) => i).sort((i, j) => (values[i] ?? 0) - (values[j] ?? 0))
  const ranks = new Array<number>(values.length)
  for (let first = 0; first < order.length; ) {
    let next = first + 1
    while (next < order.length && values[order[next] as number] === values[order[first] as number]) next += 1
    for (let i = first; i < next; i += 1) ranks[order[i] as number] = (first + next - 1) / 2
    first = next
  }
  return ranks
}
