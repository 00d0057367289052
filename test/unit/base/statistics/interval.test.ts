/** Intervals of mean rewards against published values. */
import { expect, test } from 'vitest'
import { meanInterval, studentQuantile, wilsonInterval } from '#base/statistics/interval.js'

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

/** NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, upper 0.025 critical values; three digits. */
test.each([
  [1, 12.706],
  [2, 4.303],
  [3, 3.182],
  [4, 2.776],
  [5, 2.571],
  [6, 2.447],
  [9, 2.262],
  [15, 2.131],
  [30, 2.042],
  [100, 1.984],
])('Student with %i degrees of freedom: %d', (freedom, expected) => {
  expect(Math.abs(studentQuantile(freedom) / expected - 1)).toBeLessThan(3e-4)
})

test('values that are 0 or 1 have Wilson, others Student by their deviation', () => {
  expect(meanInterval([1, 0], null)).toEqual(wilsonInterval(0.5, 2))
  // mean 0.5, squares 0.16 in all, seven degrees of freedom
  const [low, high] = meanInterval([0.3, 0.5, 0.7, 0.5, 0.3, 0.5, 0.7, 0.5], null) ?? [0, 0]
  expect((low + high) / 2).toBeCloseTo(0.5, 12)
  expect((high - low) / 2).toBeCloseTo(2.3646 * Math.sqrt(0.16 / 7 / 8), 4)
})

test('an end lies inside of what is possible, where that is known', () => {
  const few = [0.25, 1, 1, 0.75]
  expect(meanInterval(few, null)?.[1]).toBeGreaterThan(1)
  expect(meanInterval(few, [0, 1])).toEqual([meanInterval(few, null)?.[0], 1])
})

test('one prompt says nothing of others', () => {
  expect(meanInterval([1], null)).toBeNull()
})
