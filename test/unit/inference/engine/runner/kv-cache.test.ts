/**
 * Rows of keys and values keep their contents while the cache grows, shrinks and closes holes.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { KvCache } from '#inference/engine/runner/kv-cache.js'
import { KvMemory } from '#inference/engine/runner/kv-memory.js'
import { type KvNewRows, type KvPlace, kvBytesPerToken, roundedCapacity } from '#inference/engine/runner/kv-shape.js'

const SHAPE = { layerCount: 2, kvHeadCount: 2, headSize: 3 }

/** New rows [2L, slots, tokens, D] of one sequence whose numbers tell tag, side, head, token and dimension. */
function newRows(tag: number, tokens: number, place: KvPlace & { rows: number; width: number }): KvNewRows {
  const { row, member, rows, width } = place
  const slots = rows * 2 * width
  const data = new Float32Array(4 * slots * tokens * 3).fill(-1)
  for (let side = 0; side < 4; side++) {
    for (let k = 0; k < 2; k++) {
      const slot = side * slots + (row * 2 + k) * width + member
      for (let t = 0; t < tokens; t++) {
        for (let d = 0; d < 3; d++) data[(slot * tokens + t) * 3 + d] = tag * 10000 + side * 1000 + k * 100 + t * 10 + d
      }
    }
  }
  return { data, slots, width, row, member, tokens, count: tokens }
}

/** Rows of a step with one sequence. */
function ownRows(tag: number, tokens: number): KvNewRows {
  return newRows(tag, tokens, { row: 0, member: 0, rows: 1, width: 1 })
}

/** Everything a member holds, read through the dense tensors: side, head, token, dimension. */
function contents(cache: KvCache, row: number, member = 0): number[] {
  const out: number[] = []
  for (let layer = 0; layer < 2; layer++) {
    for (const side of [0, 1] as const) {
      const { data } = cache.tensor(layer, side)
      for (let k = 0; k < 2; k++) {
        const start = ((row * 2 + k) * cache.width + member) * cache.capacity * 3
        out.push(...data.subarray(start, start + cache.lengthOf(row, member) * 3))
      }
    }
  }
  return out
}

function expectedContents(tag: number, tokens: number): number[] {
  return [...ownRows(tag, tokens).data]
}

describe('kv cache', () => {
  it('returns what was appended, in the order of the dense tensor', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(4)
    cache.append({ row: 0, member: 0 }, ownRows(7, 2))
    const tensor = cache.tensor(1, 0)
    expect(tensor.shape).toEqual([2, 16, 3])
    expect([...tensor.data.subarray(0, 6)]).toEqual([72000, 72001, 72002, 72010, 72011, 72012])
    expect([...tensor.data.subarray(48, 51)]).toEqual([72100, 72101, 72102])
    expect(contents(cache, 0)).toEqual(expectedContents(7, 2))
  })

  it('lays members of a row side by side and picks each out of a step', () => {
    const cache = new KvCache(SHAPE, 2)
    cache.addRow()
    cache.addRow()
    cache.setCapacity(16)
    cache.append({ row: 1, member: 1 }, newRows(5, 3, { row: 1, member: 1, rows: 2, width: 2 }))
    cache.append({ row: 0, member: 1 }, newRows(6, 2, { row: 0, member: 1, rows: 2, width: 2 }))
    expect(contents(cache, 1, 1)).toEqual(expectedContents(5, 3))
    expect(contents(cache, 0, 1)).toEqual(expectedContents(6, 2))
    expect(cache.lengthOf(0, 0)).toBe(0)
    expect(cache.longest).toBe(3)
    expect(cache.tensor(0, 0).shape).toEqual([8, 16, 3])
  })

  it('drops padding', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(16)
    cache.append({ row: 0, member: 0 }, { ...ownRows(3, 3), count: 1 })
    expect(contents(cache, 0)).toEqual(expectedContents(3, 3).filter((value) => Math.floor(value / 10) % 10 === 0))
  })

  it.each([
    ['', false, null],
    [' in memory for twice the tokens', true, null],
    [' in memory that others had', false, new KvMemory()],
    [' in memory for twice the tokens that others had', true, new KvMemory()],
  ])('keeps contents through random growth, shrinking and removal%s', (_, isGrowing, memory) => {
    const rng = createRng(5)
    const cache = new KvCache(SHAPE, 2, { room: { rows: 2, tokens: 48 }, isGrowing, memory })
    const others: Float32Array[] = []
    const rows: { tags: (number | null)[] }[] = []
    const lengthOf = (tag: number): number => 1 + (tag % 9)
    let tag = 1
    let prepared = 0
    for (let round = 0; round < 600; round++) {
      // who reads this beside its own finds out
      if (memory !== null && round % 3 === 0) others.push(memory.take((round * 37) % 900).fill(Number.NaN))
      if (memory !== null && others.length > 5) memory.give(others.splice(round % 5, 1)[0] as Float32Array)
      const dice = rng.uniform()
      if (dice < 0.3 && rows.length < 6) {
        const row = cache.addRow()
        cache.setCapacity(Math.max(cache.capacity, 16))
        const member = Math.floor(rng.uniform() * 2)
        const from = { rows: row + 1, width: 2, row, member }
        cache.append({ row, member }, newRows(tag, lengthOf(tag), from))
        rows.push({ tags: [0, 1].map((m) => (m === member ? tag : null)) })
        tag++
      } else if (dice < 0.45 && rows.length > 0) {
        const row = Math.floor(rng.uniform() * rows.length)
        cache.removeRow(row)
        const last = rows.pop()
        if (row < rows.length && last !== undefined) rows[row] = last
      } else if (dice < 0.55 && rows.length > 0) {
        const row = Math.floor(rng.uniform() * rows.length)
        const tags = rows[row]?.tags ?? []
        const member = tags.findIndex((own) => own !== null)
        if (member >= 0) cache.clear({ row, member })
        if (member >= 0) tags[member] = null
      } else if (dice < 0.65) cache.setCapacity(10 + Math.floor(rng.uniform() * 60))
      else if (cache.preparedCapacity === 0) cache.prepareCapacity(10 + Math.floor(rng.uniform() * 60), 3)
      else if (cache.prepareCapacity(cache.preparedCapacity, 3)) {
        prepared++
        cache.setCapacity(cache.preparedCapacity)
      }
      for (const [row, { tags }] of rows.entries()) {
        for (const [member, own] of tags.entries()) {
          expect(contents(cache, row, member)).toEqual(own === null ? [] : expectedContents(own, lengthOf(own)))
        }
      }
      // whatever no member holds is zero
      const held = rows.flatMap(({ tags }) =>
        tags.flatMap((own) => (own === null ? [] : expectedContents(own, lengthOf(own)))),
      )
      const sides = [0, 1].flatMap((layer) => [0, 1].map((side) => cache.tensor(layer, side as 0 | 1).data))
      expect(sides.reduce((sum, data) => sum + data.filter((value) => value !== 0).length, 0)).toBe(
        held.filter((value) => value !== 0).length,
      )
    }
    if (!isGrowing) expect(prepared).toBeGreaterThan(10)
    cache.release()
    for (const other of others) memory?.give(other)
    expect(memory?.usedBytes ?? 0).toBe(0)
  })

  it('moves rows in little more memory than they end with', () => {
    const memory = new KvMemory()
    const cache = new KvCache(SHAPE, 1, { memory })
    cache.setCapacity(4096)
    for (let row = 0; row < 40; row++) {
      cache.addRow()
      cache.append({ row, member: 0 }, ownRows(row, 9))
      expect(contents(cache, row)).toEqual(expectedContents(row, 9))
    }
    // growth by half, each time in fresh memory, would be three times as much
    expect(memory.sizeBytes).toBeLessThan(1.6 * cache.sizeBytes)
    cache.release()
    expect(memory.usedBytes).toBe(0)
    expect(() => cache.tensor(0, 0)).toThrow('no side')
  })

  it('grows in the memory it has taken for twice the tokens, with nothing to prepare', () => {
    const cache = new KvCache(SHAPE, 1, { isGrowing: true })
    cache.addRow()
    cache.setCapacity(16)
    cache.append({ row: 0, member: 0 }, ownRows(1, 9))
    const memory = cache.tensor(1, 1).data.buffer
    expect(cache.prepareCapacity(32, 4)).toBe(true)
    expect(cache.preparedCapacity).toBe(0)
    cache.setCapacity(32)
    expect(cache.tensor(1, 1).data.buffer).toBe(memory)
    expect(contents(cache, 0)).toEqual(expectedContents(1, 9))
    cache.setCapacity(48)
    expect(cache.tensor(1, 1).data.buffer).not.toBe(memory)
    expect(contents(cache, 0)).toEqual(expectedContents(1, 9))
  })

  it('moves to a capacity in parts, and is as before until it is used', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(16)
    cache.append({ row: 0, member: 0 }, ownRows(1, 2))
    const before = cache.tensor(0, 0)
    const answers = Array.from({ length: 4 }, (_, i) => cache.prepareCapacity(32, 4 - i))
    expect(answers).toEqual([false, false, false, true])
    expect([cache.capacity, cache.preparedCapacity]).toEqual([16, 32])
    expect(cache.tensor(0, 0)).toBe(before)
    cache.append({ row: 0, member: 0 }, ownRows(2, 1))
    cache.setCapacity(32)
    expect([cache.capacity, cache.preparedCapacity]).toEqual([32, 0])
    expect(contents(cache, 0).filter((value) => value >= 20000)).toEqual(expectedContents(2, 1))
    expect(contents(cache, 0).filter((value) => value < 20000)).toEqual(expectedContents(1, 2))
  })

  it('moves a side again whose memory could not be had', () => {
    const memory = new KvMemory()
    const cache = new KvCache(SHAPE, 1, { memory })
    cache.addRow()
    cache.setCapacity(16)
    cache.append({ row: 0, member: 0 }, ownRows(3, 9))
    const take = memory.take.bind(memory)
    memory.take = () => {
      throw new RangeError('Array buffer allocation failed')
    }
    expect(() => cache.prepareCapacity(32, 1)).toThrow(RangeError)
    memory.take = take
    cache.setCapacity(32)
    expect(contents(cache, 0)).toEqual(expectedContents(3, 9))
  })

  it('gives up a prepared capacity that has become too small', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(64)
    cache.append({ row: 0, member: 0 }, ownRows(1, 2))
    cache.prepareCapacity(16, 1)
    cache.append({ row: 0, member: 0 }, ownRows(2, 20))
    expect(cache.preparedCapacity).toBe(0)
    expect(cache.lengthOf(0)).toBe(22)
  })

  it('copies part of another cache', () => {
    const source = new KvCache(SHAPE)
    source.addRow()
    source.setCapacity(8)
    source.append({ row: 0, member: 0 }, ownRows(2, 5))
    const target = new KvCache(SHAPE, 2)
    target.addRow()
    target.setCapacity(40)
    const from = { row: 0, member: 0, start: 1, count: 3 }
    target.appendFrom({ row: 0, member: 1 }, source, from)
    const isCopied = (value: number): boolean => [1, 2, 3].includes(Math.floor(value / 10) % 10)
    expect(contents(target, 0, 1)).toEqual(expectedContents(2, 5).filter(isCopied))
    expect(() => target.appendFrom({ row: 0, member: 0 }, source, { ...from, count: 5 })).toThrow('fewer tokens')
  })

  it('leaves nothing behind for those who come after', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(16)
    const broken = { ...ownRows(1, 2), data: ownRows(1, 2).data.fill(Number.NaN) }
    cache.append({ row: 0, member: 0 }, broken)
    cache.clear({ row: 0, member: 0 })
    expect(cache.lengthOf(0)).toBe(0)
    expect(cache.tensor(0, 0).data.every((value) => value === 0)).toBe(true)
    cache.append({ row: 0, member: 0 }, broken)
    cache.removeRow(0)
    cache.addRow()
    expect(cache.tensor(1, 1).data.every((value) => value === 0)).toBe(true)
  })

  it('refuses what does not fit', () => {
    const cache = new KvCache(SHAPE)
    cache.addRow()
    cache.setCapacity(16)
    expect(() => cache.append({ row: 0, member: 0 }, ownRows(1, 17))).toThrow('overflows its capacity 16')
    expect(() => cache.lengthOf(1)).toThrow('no row 1')
  })

  it('counts bytes', () => {
    expect(kvBytesPerToken(SHAPE)).toBe(2 * 2 * 2 * 3 * 4)
    expect([1, 16, 17].map(roundedCapacity)).toEqual([16, 16, 32])
  })
})
