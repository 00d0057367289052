/**
 * Numeric comparison with the worst element in the message.
 */

/** Largest allowed difference: absolute + relative · |expected|. */
export interface Tolerance {
  readonly relative: number
  readonly absolute: number
}

/** float32 arithmetic on short sums. */
export const FLOAT32_TOLERANCE: Tolerance = { relative: 1e-5, absolute: 1e-6 }

/**
 * Asserts that all elements are close; NaN equals NaN, infinities must match.
 *
 * @throws {Error} naming the worst element
 */
export function expectClose(
  actual: ArrayLike<number | bigint>,
  expected: ArrayLike<number | bigint>,
  tolerance: Tolerance = FLOAT32_TOLERANCE,
  label = 'values',
): void {
  if (actual.length !== expected.length)
    throw new Error(`${label}: ${actual.length} elements, expected ${expected.length}`)
  let worst = 0
  let message = ''
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [Number(actual[i]), Number(expected[i])]
    if (Object.is(a, b) || a === b) continue
    const excess = Math.abs(a - b) / (tolerance.absolute + tolerance.relative * Math.abs(b))
    if (excess > worst || Number.isNaN(excess)) {
      worst = Number.isNaN(excess) ? Number.POSITIVE_INFINITY : excess
      message = `${label}: element ${i} of ${expected.length} is ${a}, expected ${b} (${excess.toFixed(2)} times the tolerance)`
    }
  }
  if (worst > 1) throw new Error(message)
}
