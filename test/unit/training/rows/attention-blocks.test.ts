/** Blocks of attention meet every key that one of their queries sees, and little else. */
import { describe, expect, it } from 'vitest'
import { attentionBlockRows, attentionBlocks, attentionPairs } from '#training/rows/attention-blocks.js'
import { isVisible, packRows } from '#training/rows/pack.js'
import { packedRowCost, rowCost } from '#training/rows/training-batch.js'
import { forSeeds, randomSequences, sequenceOf } from '../../../support/model/random-trajectories.js'

const options = { rowLength: 64, padTokenId: 2, padMultiple: 8 } as const

/** One prompt of 512 tokens with eight answers of 64. */
const group = Array.from({ length: 8 }, (_, n) =>
  sequenceOf(
    Array.from({ length: 576 }, (_, t) => (t < 512 ? t : 1000 * n + t)),
    Array.from({ length: 64 }, (_, t) => 512 + t),
  ),
)

describe('attentionBlocks', () => {
  it('lists every visible key of random packed rows, none that is later than the block or belongs to another sequence', () => {
    forSeeds(20, (rng) => {
      for (const row of packRows(randomSequences(rng, 40), options)) {
        for (const most of [2, 6, 16, 1000]) {
          const { starts, rows, keys } = attentionBlocks(row, most)
          expect(rows).toBeLessThanOrEqual(most)
          expect(rows % 2).toBe(0)
          expect((starts.length - 1) * rows).toBeLessThan(row.tokens.length)
          expect(starts.length * rows).toBeGreaterThanOrEqual(row.tokens.length)
          starts.forEach((start, block) => {
            const listed = keys[block] ?? new Int32Array(0)
            expect([...listed]).toEqual([...new Set(listed)].sort((a, b) => a - b))
            const queries = Array.from({ length: Math.min(rows, row.tokens.length - start) }, (_, at) => start + at)
            const own = queries.flatMap((query) => [row.groupIds[query], row.parentIds[query]])
            for (let key = 0; key < row.tokens.length; key += 1) {
              if (queries.some((query) => isVisible(row, query, key))) expect(listed).toContain(key)
            }
            for (const key of listed) expect(own).toContain(row.groupIds[key])
            expect(listed.at(-1)).toBeLessThanOrEqual(start + rows - 1)
          })
        }
      }
    })
  })

  it('computes less than half of the pairs of a group that shares its prompt', () => {
    const [row] = packRows(group, { rowLength: 2048, padTokenId: 0, padMultiple: 32 })
    const { length } = row!.tokens
    expect(length).toBe(1056)
    expect(attentionPairs(attentionBlocks(row!, attentionBlockRows(length)))).toBeLessThan(0.5 * length ** 2)
    expect(packedRowCost(row!)).toBeLessThan(rowCost(length))
  })
})

describe('rowCost', () => {
  it('counts the pairs of long rows as they are computed, in blocks up to each query', () => {
    const attention = (length: number): number => rowCost(length) / length - 1
    expect(attention(8192) / attention(128)).toBeLessThan((0.55 * 8192) / 128)
    expect(attention(8192) / attention(128)).toBeGreaterThan((0.5 * 8192) / 128)
  })
})
