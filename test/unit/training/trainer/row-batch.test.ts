/**
 * Rows as graph inputs: what is trained where, who sees whom, how positions are cut into chunks.
 */
import { describe, expect, it } from 'vitest'
import { perToken, type Row, sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'

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
