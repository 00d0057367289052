/**
 * Whether numbers differ by more than rounding. The mean of equal numbers may differ from them in the last bit, so that exact
 * comparison sees differences where there are none.
 */

/** Numbers that differ by no more than this count as equal. */
export const EQUAL_WITHIN = 1e-12

/** Whether at least two numbers differ by more than `EQUAL_WITHIN`. */
export function differ(values: readonly number[]): boolean {
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (const value of values) {
    low = Math.min(low, value)
    high = Math.max(high, value)
  }
  return high - low > EQUAL_WITHIN
}
