/** Which micro-batches of a step are measured first. */
import { expect, it } from 'vitest'
import { spreadOrder } from '#training/kinds/rl/trust-region.js'

it('lists every micro-batch once, and leaves no wide gap after any number of them', () => {
  for (let count = 1; count <= 200; count++) {
    const order = spreadOrder(count)
    expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, index) => index))
    for (let taken = 1; taken <= count; taken++) {
      const met = [-1, ...order.slice(0, taken).sort((a, b) => a - b), count]
      const widest = Math.max(...met.slice(1).map((index, at) => index - (met[at] as number)))
      // Evenly spaced ones would leave gaps of count / (taken + 1).
      expect(widest, `${taken} of ${count}`).toBeLessThanOrEqual(Math.ceil((4 * count) / (taken + 1)) + 1)
    }
  }
})
