/**
 * Memory that is given back is zero when it is taken again, belongs to one owner at a time, and goes when nobody needs it.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { KvMemory } from '#inference/engine/runner/kv-memory.js'

const SLAB_BYTES = 32 * 2 ** 20

/** Whether all numbers are `value`; `every` takes too long for so many. */
function isAll(array: Float32Array, value: number): boolean {
  for (const number of array) if (number !== value) return false
  return true
}

describe('kv memory', () => {
  it('hands out zeros that nobody else has, through random taking and giving', () => {
    const rng = createRng(3)
    const memory = new KvMemory()
    const taken: { array: Float32Array; tag: number }[] = []
    let bytes = 0
    for (let round = 1; round <= 400; round++) {
      if (rng.uniform() < 0.55) {
        const array = memory.take(Math.floor(rng.uniform() ** 3 * 1e5))
        expect(isAll(array, 0)).toBe(true)
        array.fill(round)
        taken.push({ array, tag: round })
        bytes += Math.ceil(array.length / 16) * 64
      } else {
        const [last] = taken.splice(Math.floor(rng.uniform() * taken.length), 1)
        if (last === undefined) continue
        expect(isAll(last.array, last.tag)).toBe(true)
        bytes -= Math.ceil(last.array.length / 16) * 64
        last.array.fill(Number.NaN)
        memory.give(last.array)
      }
      expect(memory.usedBytes).toBe(bytes)
    }
    for (const { array, tag } of taken) expect(isAll(array, tag)).toBe(true)
    for (const { array } of taken) memory.give(array)
    expect(memory.usedBytes).toBe(0)
  })

  it('uses again what was given back, and joins it with its neighbours', () => {
    const memory = new KvMemory()
    const parts = [0, 1, 2, 3].map(() => memory.take(1600))
    const before = memory.sizeBytes
    for (const index of [0, 2, 1]) memory.give(parts[index] as Float32Array)
    const joined = memory.take(4800)
    expect(joined.buffer).toBe(parts[0]?.buffer)
    expect(joined.byteOffset).toBe(parts[0]?.byteOffset)
    expect(memory.sizeBytes).toBe(before)
  })

  it('takes a larger slab for what does not fit, and has room for all that was reserved', () => {
    const memory = new KvMemory()
    const large = memory.take(SLAB_BYTES / 4 + 1)
    expect(large.length).toBe(SLAB_BYTES / 4 + 1)
    const length = SLAB_BYTES / 16
    memory.reserve(10, length)
    const arrays = Array.from({ length: 10 }, () => memory.take(length))
    // one slab was made for all
    expect(new Set(arrays.map(({ buffer }) => buffer)).size).toBe(1)
  })

  it('keeps free slabs within its bound only, and none once trimmed', () => {
    const memory = new KvMemory(SLAB_BYTES)
    const first = memory.take(SLAB_BYTES / 4)
    const second = memory.take(SLAB_BYTES / 4)
    expect(memory.sizeBytes).toBe(2 * SLAB_BYTES)
    memory.give(first)
    expect(memory.sizeBytes).toBe(SLAB_BYTES)
    memory.give(second)
    expect(memory.sizeBytes).toBe(SLAB_BYTES)
    memory.trim()
    expect(memory.sizeBytes).toBe(0)
    // gone at once, not when garbage is collected
    expect([first.length, second.length]).toEqual([0, 0])
    const kept = memory.take(16)
    memory.trim()
    expect(memory.usedBytes).toBe(64)
    memory.give(kept)
  })

  it('refuses what is given twice or is not its own', () => {
    const memory = new KvMemory()
    const [one, two] = [memory.take(100), memory.take(100)]
    memory.give(one)
    expect(() => memory.give(one)).toThrow('given back twice')
    expect(() => memory.give(new Float32Array(8))).toThrow('not taken here')
    memory.give(two)
    expect(() => memory.give(two)).toThrow('given back twice')
    expect(memory.usedBytes).toBe(0)
  })
})
