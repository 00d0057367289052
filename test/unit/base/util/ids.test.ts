/**
 * Ids go up, whatever the clock does: lists and cursors go by them.
 */
import { expect, test } from 'vitest'
import { createIdSource } from '#base/util/ids.js'

const HOUR_MS = 3_600_000

test('ids of a clock that jumps back, stands still and jumps forward are all different and in order', () => {
  let nowMs = 1_800_000_000_000
  const ids = createIdSource({ nowMs: () => nowMs })
  const made: string[] = []
  for (const jumpMs of [0, -HOUR_MS, 5, 240 * HOUR_MS, -72 * HOUR_MS, 0, 1]) {
    nowMs += jumpMs
    for (let i = 0; i < 2000; i += 1) made.push(ids.uuid())
  }
  expect(new Set(made).size).toBe(made.length)
  expect([...made].sort()).toEqual(made)
  for (const id of made) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('ids go on behind those of an earlier process whose clock was ahead', () => {
  const before = createIdSource({ nowMs: () => 1_800_000_000_000 + 24 * HOUR_MS })
  const newest = Array.from({ length: 10 }, () => before.uuid()).at(-1) ?? ''
  const ids = createIdSource({ nowMs: () => 1_800_000_000_000 })
  expect(ids.uuid() < newest).toBe(true)
  ids.continueAfter(newest)
  const first = ids.uuid()
  expect(first > newest).toBe(true)
  ids.continueAfter('no id')
  ids.continueAfter('00000000-0000-7000-8000-000000000000')
  expect(ids.uuid() > first).toBe(true)
})
