/** Intervals of mean rewards against published values. */
import { expect, test } from 'vitest'
import { meanInterval, wilsonInterval } from '#base/statistics/interval.js'

/** Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3; four digits. */
test.each([
  { successes: 81, count: 263, expected: [0.2553, 0.3662] },
  { successes: 15, count: 148, expected: [0.0624, 0.1605] },
  { successes: 0, count: 20, expected: [0, 0.1611] },
  { successes: 1, count: 29, expected: [0.0061, 0.1718] },
])('Wilson: $successes of $count', ({ successes, count, expected }) => {
  const [low, high] = wilsonInterval(successes / count, count)
  expect(low).toBeCloseTo(expected[0] as number, 4)
  expect(high).toBeCloseTo(expected[1] as number, 4)
})

test('values that are 0 or 1 have Wilson, others the normal interval by their deviation', () => {
  expect(meanInterval([1, 0])).toEqual(wilsonInterval(0.5, 2))
  // mean 0.5, deviation 0.2, standard error 0.1
  const [low, high] = meanInterval([0.3, 0.5, 0.7, 0.5, 0.3, 0.5, 0.7, 0.5]) ?? [0, 0]
  expect((low + high) / 2).toBeCloseTo(0.5, 12)
  expect((high - low) / 2).toBeCloseTo(1.959964 * Math.sqrt(0.16 / 7 / 8), 6)
})

test('one prompt says nothing of others', () => {
  expect(meanInterval([1])).toBeNull()
})
