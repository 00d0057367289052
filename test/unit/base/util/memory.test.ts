import { expect, test } from 'vitest'
import { availableMemoryBytes, memoryBytes } from '#base/util/memory.js'

test.each([
  ['no limit is told as 0', 0, 100],
  ['no limit is told as more than there is', 2 ** 64, 100],
  ['a container has less than the machine', 30, 30],
])('%s', (_, limitBytes, expected) => {
  expect(memoryBytes(limitBytes, 100)).toBe(expected)
})

test('what the system does not say is unknown, not nothing', () => {
  expect(availableMemoryBytes(0)).toBeNull()
  expect(availableMemoryBytes(5)).toBe(5)
})
