/** What counts as a difference between rewards. */
import { expect, test } from 'vitest'
import { differ } from '#base/differ.js'

test.each([
  [[0.3, 0.1 + 0.2], false],
  [[0, 1e-9], true],
  [[1], false],
  [[], false],
  [[1, 1, 0], true],
])('%j', (values, expected) => {
  expect(differ(values)).toBe(expected)
})
