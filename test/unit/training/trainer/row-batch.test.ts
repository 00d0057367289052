/**
 * Rows as graph inputs: what is trained where, who sees whom, how positions are cut into chunks.
 */
import { describe, expect, it } from 'vitest'
import { blockFeeds, perToken, type Row, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

describe('toRowBatch', () => {
  it('trains each masked token at the position before it', () => {
    const batch = toRowBatch([sequenceRow(Int32Array.of(5, 6, 7, 8), Uint8Array.of(0, 0, 1, 1))])
    expect(batch.trained).toEqual([
      { position: 1, row: 0, index: 2, label: 7 },
      { position: 2, row: 0, index: 3, label: 8 },
    ])
    expect(listOf(batch.feeds['label_positions'])).toEqual([1, 2])
    expect(listOf(batch.feeds['labels'])).toEqual([7, 8])
    expect(listOf(batch.feeds['row_of_position'])).toEqual([2, 0, 1, 2])
  })

  it('lays out a row longer than what a call can be given', () => {
    const length = 131_072
    const { trained } = toRowBatch([sequenceRow(new Int32Array(length), new Uint8Array(length).fill(1))])
    expect(trained).toHaveLength(length - 1)
    expect(trained.at(-1)).toEqual({ position: length - 2, row: 0, index: length - 1, label: 0 })
  })

  it('never trains the first token of a row or of a segment, which nothing predicts', () => {
    const row: Row = {
      ...sequenceRow(Int32Array.of(1, 2, 3, 4), Uint8Array.of(1, 1, 1, 1)),
      groupIds: Int32Array.of(0, 0, 1, 1),
      parentIds: Int32Array.of(0, 0, 0, 0),
    }
    expect(toRowBatch([row]).trained.map(({ index }) => index)).toEqual([1, 3])
  })

  it('shows a token its own segment and its parent, nothing later and nothing else', () => {
    const row: Row = {
      ...sequenceRow(Int32Array.of(1, 2, 3, 4, 5), Uint8Array.of(0, 0, 1, 0, 1)),
      groupIds: Int32Array.of(0, 1, 1, 2, 2),
      parentIds: Int32Array.of(0, 0, 0, 0, 0),
    }
    const { data } = toRowBatch([row]).feeds['bias']!
    const seen = Array.from({ length: 5 }, (_, q) => [0, 1, 2, 3, 4].filter((k) => data[q * 5 + k] === 0))
    expect(seen).toEqual([[0], [0, 1], [0, 1, 2], [0, 3], [0, 3, 4]])
  })

  it('pads shorter rows at the right; padding is seen by nobody and sees itself', () => {
    const batch = toRowBatch(
      [
        sequenceRow(Int32Array.of(1, 2, 3), Uint8Array.of(0, 1, 1)),
        sequenceRow(Int32Array.of(4, 5), Uint8Array.of(0, 1)),
      ],
      { length: 4 },
    )
    expect(batch.feeds['tokens']!.shape).toEqual([2, 4])
    expect(batch.trained.map(({ position, label }) => [position, label])).toEqual([
      [0, 2],
      [1, 3],
      [4, 5],
    ])
    const { data } = batch.feeds['bias']!
    const seen = (row: number, q: number) => [0, 1, 2, 3].filter((k) => data[row * 16 + q * 4 + k] === 0)
    expect(seen(0, 3)).toEqual([3])
    expect(seen(1, 1)).toEqual([0, 1])
  })

  it('cuts positions into chunks of equal size, at most 256', () => {
    const length = 600
    const batch = toRowBatch([sequenceRow(new Int32Array(length).fill(1), new Uint8Array(length).fill(1))])
    expect(batch.trained.length).toBe(599)
    expect(batch.feeds['labels']!.shape).toEqual([3, 200])
    expect(batch.paddedCount).toBe(600)
    const values = perToken(batch, ({ index }) => index, -1)
    expect([values.data[0], values.data[598], values.data[599]]).toEqual([1, 599, -1])
  })

  it('rejects a row that does not fit', () => {
    expect(() => toRowBatch([sequenceRow(new Int32Array(5), new Uint8Array(5))], { length: 4 })).toThrow(RangeError)
  })
})

function listOf(tensor: { readonly data: ArrayLike<number | bigint> } | undefined): number[] {
  return Array.from(tensor?.data ?? [], Number)
}

describe('blockFeeds', () => {
  /** A prompt of two tokens with answers of three and two, and a shorter row. */
  const rows: Row[] = [
    {
      ...sequenceRow(Int32Array.of(1, 2, 3, 4, 5, 6, 7), new Uint8Array(7).fill(1)),
      positions: Int32Array.of(0, 1, 2, 3, 4, 2, 3),
      groupIds: Int32Array.of(0, 0, 1, 1, 1, 2, 2),
      parentIds: Int32Array.of(0, 0, 0, 0, 0, 0, 0),
    },
    sequenceRow(Int32Array.of(8, 9), new Uint8Array(2).fill(1)),
  ]

  it('says of every query of a block and key it lists what the dense bias says, and what a window leaves', () => {
    const batch = toRowBatch(rows)
    const dense = batch.feeds['bias']!.data
    const feeds = blockFeeds(batch, { most: 4, window: 2 })
    const [starts, keys, bounds] = ['block_starts', 'key_indices', 'key_bounds'].map((name) => listOf(feeds[name]))
    const hiddenBounds = listOf(feeds['block_hidden_bounds'])
    const size = 2 * feeds['block_half_rows']!.data.length
    expect(size).toBe(4)
    const position = (token: number): number => [0, 1, 2, 3, 4, 2, 3, 0, 1, 0, 0, 0, 0, 0][token]!
    let pairs = 0
    starts!.forEach((start, block) => {
      const listed = keys!.slice(bounds![block], bounds![block + 1])
      expect(hiddenBounds[block]).toBe(pairs)
      for (let at = 0; at < size; at += 1) {
        // Queries behind the last token read as that one.
        const query = Math.min(start + at, 13)
        for (const key of listed) {
          const isSameRow = Math.floor(query / 7) === Math.floor(key / 7)
          const isPadding = isSameRow && query > 8 && key > 8 && key <= query
          const isSeen = isPadding || (isSameRow && dense[query * 7 + (key % 7)] === 0)
          expect(feeds['block_hidden']!.data[pairs], `${query} sees ${key}`).toBe(isSeen ? 0 : 1)
          const isNear = position(query) - position(key) < 2
          expect(feeds['block_hidden_sliding']!.data[pairs], `${query} sees ${key}`).toBe(isSeen && isNear ? 0 : 1)
          pairs += 1
        }
      }
    })
    expect(hiddenBounds.at(-1)).toBe(pairs)
    expect(feeds['block_hidden']!.data).toHaveLength(pairs)
  })
})
