/** When a job has stopped getting better. */
import { describe, expect, it } from 'vitest'
import { measurementsSinceBetter } from '#training/trainer/epochs/validation.js'

const since = (losses: readonly number[], minDelta = 0): number =>
  measurementsSinceBetter(
    losses.map((loss) => ({ loss })),
    minDelta,
  )

describe('measurementsSinceBetter', () => {
  it('counts measurements after the best one', () => {
    expect(since([])).toBe(0)
    expect(since([3, 2, 1])).toBe(0)
    expect(since([3, 1, 2])).toBe(1)
    expect(since([3, 1, 2, 1, 1.5])).toBe(3)
    expect(since([3, 1, 2, 0.9])).toBe(0)
  })

  it('takes a smaller fall than asked for as none, and measures the next against the same best', () => {
    expect(since([3, 2.95, 2.9], 0.1)).toBe(2)
    expect(since([3, 2.95, 2.8], 0.1)).toBe(0)
  })
})
