/**
 * Rows of keys and values keep their contents while the cache grows, shrinks and closes holes.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { KvCache, kvBytesPerToken } from '#inference/engine/cache/kv-cache.js'

const SHAPE = { layerCount: 2, kvHeadCount: 2, headSize: 3 }

/** New rows [2L, batch*K, tokens, D] whose numbers tell sequence, side, head, token and dimension. */
function newRows(batch: number, tokens: number, tag: (index: number) => number): Float32Array {
  const out: number[] = []
  for (let side = 0; side < 4; side++) {
    for (let index = 0; index < batch; index++) {
      for (let k = 0; k < 2; k++) {
        for (let t = 0; t < tokens; t++) {
          for (let d = 0; d < 3; d++) out.push(tag(index) * 10000 + side * 1000 + k * 100 + t * 10 + d)
        }
      }
    }
  }
  return Float32Array.from(out)
}

/** Everything a row holds. */
function contents(cache: KvCache, row: number): number[] {
  return [...cache.readBlock(row, 0, cache.lengths[row] ?? 0)]
}

describe('kv cache', () => {
  it('returns what was appended, in the order of the dense tensor', () => {
    const cache = new KvCache(SHAPE, 2, 8)
    cache.addRow()
    cache.setCapacity(4)
    cache.append(
      0,
      newRows(1, 2, () => 7),
      { batch: 1, index: 0, tokens: 2, count: 2 },
    )
    const tensor = cache.tensor(1, 0)
    expect(tensor.shape).toEqual([2, 4, 3])
    expect([...tensor.data.subarray(0, 6)]).toEqual([72000, 72001, 72002, 72010, 72011, 72012])
    expect([...tensor.data.subarray(12, 15)]).toEqual([72100, 72101, 72102])
  })

  it('picks one sequence out of a batch and drops padding', () => {
    const cache = new KvCache(SHAPE, 1, 8)
    cache.addRow()
    cache.setCapacity(4)
    cache.append(
      0,
      newRows(3, 3, (index) => index),
      { batch: 3, index: 2, tokens: 3, count: 1 },
    )
    expect(contents(cache, 0)).toEqual([
      20000, 20001, 20002, 20100, 20101, 20102, 21000, 21001, 21002, 21100, 21101, 21102, 22000, 22001, 22002, 22100,
      22101, 22102, 23000, 23001, 23002, 23100, 23101, 23102,
    ])
  })

  it('keeps every row through random growth, shrinking, appending and removal', () => {
    const rng = createRng('kv-cache')
    const cache = new KvCache(SHAPE, 5, 40)
    const expected: { tag: number; tokens: number; contents: number[] }[] = []
    for (let turn = 0; turn < 400; turn++) {
      const action = rng.integer(4)
      const longest = Math.max(0, ...cache.lengths)
      if (action === 0 && cache.rowCount < 5) {
        cache.addRow()
        expected.push({ tag: turn + 1, tokens: 0, contents: [] })
      } else if (action === 1 && cache.rowCount > 0) {
        const row = rng.integer(cache.rowCount)
        const moved = cache.removeRow(row)
        const last = expected.pop()
        if (moved !== row && last !== undefined) expected[row] = last
      } else if (action === 2) {
        cache.setCapacity(longest + 1 + rng.integer(40 - longest))
      } else if (cache.rowCount > 0) {
        const row = rng.integer(cache.rowCount)
        const length = cache.lengths[row] ?? 0
        if (length + 2 > cache.capacity) continue
        cache.append(
          row,
          newRows(1, 2, () => turn),
          { batch: 1, index: 0, tokens: 2, count: 2 },
        )
        const state = expected[row]
        if (state !== undefined) state.contents = contents(cache, row)
      }
      expected.forEach((state, row) => {
        expect(contents(cache, row), `turn ${turn}, row ${row}`).toEqual(state.contents)
      })
    }
    expect(cache.maxRows).toBe(5)
  })

  it('copies blocks and rows between caches of different capacity', () => {
    const from = new KvCache(SHAPE, 1, 8)
    from.addRow()
    from.setCapacity(5)
    from.append(
      0,
      newRows(1, 5, () => 3),
      { batch: 1, index: 0, tokens: 5, count: 5 },
    )
    const to = new KvCache(SHAPE, 2, 16)
    to.setCapacity(9)
    to.addRow()
    to.addRow()
    to.appendRow(1, from, 0)
    expect(contents(to, 1)).toEqual(contents(from, 0))
    to.appendBlock(0, from.readBlock(0, 2, 2), 2)
    expect([...to.readBlock(0, 0, 2)]).toEqual([...from.readBlock(0, 2, 2)])
  })

  it('zeroes what is truncated, so that non-finite values cannot reach the next row', () => {
    const cache = new KvCache(SHAPE, 1, 4)
    cache.addRow()
    cache.setCapacity(2)
    cache.append(0, new Float32Array(24).fill(Number.NaN), { batch: 1, index: 0, tokens: 2, count: 2 })
    cache.truncateRow(0, 0)
    expect(cache.lengths[0]).toBe(0)
    expect([...cache.tensor(0, 0).data].every((value) => value === 0)).toBe(true)
  })

  it('refuses rows and tokens beyond its size', () => {
    const cache = new KvCache(SHAPE, 1, 4)
    cache.addRow()
    expect(() => cache.addRow()).toThrow(/full/)
    expect(() => cache.setCapacity(5)).toThrow(/limit/)
    expect(() =>
      cache.append(
        0,
        newRows(1, 2, () => 1),
        { batch: 1, index: 0, tokens: 2, count: 2 },
      ),
    ).toThrow(/overflow/)
  })

  it('reserves memory without touching it', () => {
    const before = process.memoryUsage().rss
    const cache = new KvCache({ layerCount: 8, kvHeadCount: 4, headSize: 64 }, 16, 8192)
    expect(cache.rowCount).toBe(0)
    expect(kvBytesPerToken(cache.shape) * 16 * 8192).toBeGreaterThan(2e9)
    expect(process.memoryUsage().rss - before).toBeLessThan(300e6)
  })
})
