/**
 * How sure a mean reward is: its 95% interval.
 *
 * Answers to one prompt are alike, so prompts are what is counted: one value a prompt, the mean of its answers. Where every value is 0 or
 * 1 it is Wilson's score interval, which holds for few prompts and near 0 and 1; else the normal one by the values' deviation.
 * Sources: Wilson 1927, "Probable inference, the law of succession, and statistical inference"; Miller 2024, "Adding error
 * bars to evals" (clustered by question).
 */

/** Lower and upper end. */
export type Interval = readonly [number, number]

/** The normal distribution's 97.5% point. */
const Z = 1.959963984540054

/** @param values one a prompt. @returns null for fewer than two */
export function meanInterval(values: readonly number[]): Interval | null {
  const count = values.length
  if (count < 2) return null
  const mean = values.reduce((sum, value) => sum + value, 0) / count
  if (values.every((value) => value === 0 || value === 1)) return wilsonInterval(mean, count)
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1)
  const half = Z * Math.sqrt(variance / count)
  return [mean - half, mean + half]
}

/** @param share of successes among `count` tries */
export function wilsonInterval(share: number, count: number): Interval {
  const scale = 1 + Z ** 2 / count
  const middle = (share + Z ** 2 / (2 * count)) / scale
  const half = (Z / scale) * Math.sqrt((share * (1 - share)) / count + Z ** 2 / (4 * count ** 2))
  return [Math.max(0, middle - half), Math.min(1, middle + half)]
}
