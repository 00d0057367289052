/**
 * Lists longer than what a call can be given as arguments.
 */
import { expect, it } from 'vitest'
import { append, maxOf, minOf } from '#base/util/lists.js'

const LENGTH = 500_000

it('are put behind others, and have a greatest and a least number', () => {
  const list = [7]
  append(
    list,
    Array.from({ length: LENGTH }, (_, i) => i),
  )
  expect(() => [7].push(...list)).toThrow(RangeError)
  expect([list.length, list[0], list.at(-1)]).toEqual([LENGTH + 1, 7, LENGTH - 1])
  expect([maxOf(list), minOf(list)]).toEqual([LENGTH - 1, 0])
})

it('say of none, of bounds and of what is no number what Math.max and Math.min say', () => {
  expect([maxOf([]), minOf([])]).toEqual([Math.max(), Math.min()])
  expect([maxOf([-3, -2], 0), minOf(new Set([4, 5]), 1)]).toEqual([0, 1])
  expect([maxOf([1, Number.NaN, 2]), minOf([1, Number.NaN])]).toEqual([Number.NaN, Number.NaN])
})
