/**
 * Bytes given back before a garbage collection finds them.
 */
import { expect, test } from 'vitest'
import { releaseBytes } from '#base/util/release-bytes.js'

test('empties a buffer of its own, and its memory is free at once', () => {
  const held = Array.from({ length: 64 }, () => new Uint8Array(1 << 20))
  const before = process.memoryUsage().arrayBuffers
  for (const bytes of held) releaseBytes(bytes)
  expect(held.map(({ length }) => length)).toEqual(held.map(() => 0))
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThan(60 << 20)
  // twice does no harm
  for (const bytes of held) releaseBytes(bytes)
})

test('leaves bytes alone that share their buffer', () => {
  const whole = Uint8Array.of(1, 2, 3, 4)
  const part = whole.subarray(1, 3)
  releaseBytes(part)
  expect([[...part], [...whole]]).toEqual([
    [2, 3],
    [1, 2, 3, 4],
  ])
})
