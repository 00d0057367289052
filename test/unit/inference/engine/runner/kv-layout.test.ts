/**
 * Memory of a layout that nobody lends memory to: one array, so that it goes back to the system as a whole.
 */
import { expect, it } from 'vitest'
import { KvLayout } from '#inference/engine/runner/kv-layout.js'

const SHAPE = { layerCount: 3, kvHeadCount: 2, headSize: 4 }

it('has all sides in one buffer, side by side and zero', () => {
  const layout = new KvLayout(SHAPE, { width: 1, held: { rows: 2, tokens: 5 }, capacity: 5, memory: null })
  const sides = Array.from({ length: 2 * SHAPE.layerCount }, (_, i) => layout.side(i))
  const numbers = 2 * 2 * 5 * 4
  expect(new Set(sides.map(({ buffer }) => buffer)).size).toBe(1)
  expect(sides[0]?.buffer.byteLength).toBe(sides.length * numbers * Float32Array.BYTES_PER_ELEMENT)
  for (const [i, side] of sides.entries()) side.fill(i + 1)
  expect(sides.map((side) => [side.length, side.every((value) => value === side[0]), side[0]])).toEqual(
    sides.map((_, i) => [numbers, true, i + 1]),
  )
})
