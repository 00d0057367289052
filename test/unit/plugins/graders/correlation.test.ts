/** Correlations and their intervals against SciPy 1.16 (`pearsonr(…).confidence_interval`, `spearmanr`). */
import { expect, test } from 'vitest'
import { pearson, spearman } from '#plugins/graders/correlation.js'

const UP = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
const SWAPPED = [2, 1, 4, 3, 7, 5, 8, 6, 10, 9]
const PEOPLE = [0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0.5, 0.5]
const GRADER = [0.1, 0.4, 0.35, 0.8, 0.2, 0.9, 0.6, 0.6, 0.7, 0.6, 0.4, 0.5]

test.each([
  [UP, SWAPPED, 0.9030303030303025, [0.6337181810830425, 0.9771033564826415]],
  [PEOPLE, GRADER, 0.6688484164698063, [0.1540976883600429, 0.898036037698444]],
])('Pearson’s', (a, b, value, interval) => {
  const found = pearson(a, b)
  expect(found?.value).toBeCloseTo(value, 12)
  expect(found?.interval?.[0]).toBeCloseTo(interval[0] as number, 6)
  expect(found?.interval?.[1]).toBeCloseTo(interval[1] as number, 6)
})

test('Spearman’s shares ranks among equal values; its interval is wider than Pearson’s of the same value', () => {
  const found = spearman(PEOPLE, GRADER)
  expect(found?.value).toBeCloseTo(0.6430691717598138, 12)
  // Bonett and Wright's width by hand: sqrt((1 + r^2 / 2) / (n - 3))
  const half = 1.959963984540054 * Math.sqrt((1 + 0.6430691717598138 ** 2 / 2) / 9)
  expect(found?.interval?.[0]).toBeCloseTo(Math.tanh(Math.atanh(0.6430691717598138) - half), 9)
  expect(
    spearman(
      UP,
      UP.map((value) => value ** 3),
    ),
  ).toEqual({ value: 1, interval: [1, 1] })
})

test('none where one list does not vary, and no interval of three', () => {
  expect(pearson([1, 1, 1, 1], UP.slice(0, 4))).toBeNull()
  expect(spearman(UP, new Array<number>(10).fill(0.1))).toBeNull()
  expect(pearson([0.1, 0.1, 0.1], [1, 2, 3])).toBeNull()
  expect(pearson([1, 2, 4], [1, 2, 3])?.interval).toBeNull()
})
