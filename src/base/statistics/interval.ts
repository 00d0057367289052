/**
 * How sure a mean reward is: its 95% interval.
 *
 * Answers to one prompt are alike, so prompts are what is counted: one value a prompt, the mean of its answers. Where every value is 0 or
 * 1 it is Wilson's score interval, which holds for few prompts and near 0 and 1; else Student's, by the values' deviation.
 * Sources: Wilson 1927, "Probable inference, the law of succession, and statistical inference"; Student 1908, "The probable error of a
 * mean"; Miller 2024, "Adding error bars to evals" (clustered by question).
 */

/** Lower and upper end. */
export type Interval = readonly [number, number]

/** The normal distribution's 97.5% point. */
const Z = 1.959963984540054

/**
 * @param values one a prompt
 * @param range what a value can be; null: nobody said
 * @returns null for fewer than two values; an end never lies outside of the range
 */
export function meanInterval(values: readonly number[], range: Interval | null): Interval | null {
  const count = values.length
  if (count < 2) return null
  const mean = values.reduce((sum, value) => sum + value, 0) / count
  if (values.every((value) => value === 0 || value === 1)) return wilsonInterval(mean, count)
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (count - 1)
  const half = studentQuantile(count - 1) * Math.sqrt(variance / count)
  const [least, most] = range ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  return [Math.max(least, mean - half), Math.min(most, mean + half)]
}

/** Student's 97.5% points of one to five degrees of freedom, where the series below is off by more than 1e-4. Source: R's `qt(0.975, 1:5)`. */
const FEW_DEGREES = [12.706205, 4.302653, 3.182446, 2.776445, 2.570582]

/** Student's 97.5% point of `freedom` degrees, at least one; beyond five by Abramowitz and Stegun 26.7.5, five terms. */
export function studentQuantile(freedom: number): number {
  const known = FEW_DEGREES[freedom - 1]
  if (known !== undefined) return known
  const [z2, v] = [Z ** 2, freedom]
  const terms = [
    1,
    (z2 + 1) / (4 * v),
    ((5 * z2 + 16) * z2 + 3) / (96 * v ** 2),
    (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v ** 3),
    ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / (92_160 * v ** 4),
  ]
  return Z * terms.reduce((sum, term) => sum + term, 0)
}

/** @param share of successes among `count` tries */
export function wilsonInterval(share: number, count: number): Interval {
  const scale = 1 + Z ** 2 / count
  const middle = (share + Z ** 2 / (2 * count)) / scale
  const half = (Z / scale) * Math.sqrt((share * (1 - share)) / count + Z ** 2 / (4 * count ** 2))
  return [Math.max(0, middle - half), Math.min(1, middle + half)]
}
