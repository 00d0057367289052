/** Memory of keys and values where nobody says. */
import { expect, test } from 'vitest'
import { defaultKvBytes } from '#inference/engine/engine.js'

const MB = 2 ** 20

test.each([
  { total: 24 * 1024, expected: 6064 },
  { total: 1024, expected: 176 },
  // a quarter of all would be 128: with a server, an engine of 200, a job and a command the system ends one of them
  { total: 512, expected: 48 },
  { total: 256, expected: 16 },
])('$total MB of memory: $expected MB', ({ total, expected }) => {
  expect(defaultKvBytes(total * MB)).toBe(expected * MB)
})
