/** Packing keeps every sequence whole: same tokens, positions, mask and history as unpacked. */
import { describe, expect, it } from 'vitest'
import { isVisible, type PackedRow, packRows, trainTargets } from '#training/rows/pack.js'
import { clusterByPrompt } from '#training/rows/shared-prompts.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import { forSeeds, randomSequences, sequenceOf } from '../../../support/model/random-trajectories.js'
import { leastCpuMs } from '../../../support/process-cost.js'

const options = { rowLength: 64, padTokenId: 2, padMultiple: 8 } as const

/** Row indices of a packed sequence's tokens, prompt first. */
function indicesOf(row: PackedRow, s: number): number[] {
  const packed = row.sequences[s]
  if (packed === undefined) throw new Error('no such sequence')
  const { prefixStart, prefixLength, start, end } = packed
  return [
    ...Array.from({ length: prefixLength }, (_, t) => prefixStart + t),
    ...Array.from({ length: end - start }, (_, t) => start + t),
  ]
}

/** Text form of a sequence as packed, for comparison as multisets. */
function unpacked(rows: readonly PackedRow[]): string[] {
  return rows.flatMap((row) =>
    row.sequences.map((packed, s) => {
      const at = indicesOf(row, s)
      const trained = at.filter((t) => row.lossMask[t] === 1)
      return JSON.stringify({
        group: packed.groupIndex,
        trajectory: packed.trajectoryIndex,
        tokens: at.map((t) => row.tokens[t]),
        mask: at.map((t) => row.lossMask[t]),
        logprobs: trained.map((t) => row.logprobs[t]),
        coefficients: trained.map((t) => [row.advantages[t], row.weights[t]]),
      })
    }),
  )
}

function original(sequence: TrainingSequence): string {
  const trained = [...sequence.lossMask.keys()].filter((t) => sequence.lossMask[t] === 1)
  return JSON.stringify({
    group: sequence.groupIndex,
    trajectory: sequence.trajectoryIndex,
    tokens: [...sequence.tokenIds],
    mask: [...sequence.lossMask],
    logprobs: trained.map((t) => sequence.logprobs[t]),
    coefficients: trained.map(() => [Math.fround(sequence.advantage), Math.fround(sequence.weight)]),
  })
}

describe('packRows', () => {
  it('gives back every sequence exactly once, with its mask, logprobs and coefficients', () => {
    forSeeds(150, (rng) => {
      const sequences = randomSequences(rng, 60)
      expect(unpacked(packRows(sequences, options)).sort()).toEqual(sequences.map(original).sort())
    })
  })

  it('lets each token see exactly its own sequence up to itself', () => {
    forSeeds(60, (rng) => {
      for (const row of packRows(randomSequences(rng, 40), options)) {
        row.sequences.forEach((_, s) => {
          const own = indicesOf(row, s)
          for (const [position, query] of own.entries()) {
            const seen = [...row.tokens.keys()].filter((key) => isVisible(row, query, key))
            expect(seen).toEqual(own.slice(0, position + 1))
          }
        })
      }
    })
  })

  it('gives each token its position in its own sequence, and padding sees padding only', () => {
    forSeeds(60, (rng) => {
      for (const row of packRows(randomSequences(rng, 40), options)) {
        row.sequences.forEach((_, s) => {
          expect(indicesOf(row, s).map((t) => row.positions[t])).toEqual(indicesOf(row, s).map((_, t) => t))
        })
        for (let t = row.usedLength; t < row.tokens.length; t += 1) {
          expect([row.tokens[t], row.groupIds[t], row.parentIds[t], row.lossMask[t], row.weights[t]]).toEqual([
            2, -1, -1, 0, 0,
          ])
        }
      }
    })
  })

  it('predicts every trained token from the token before it in the same segment', () => {
    forSeeds(100, (rng) => {
      for (const row of packRows(randomSequences(rng, 60), options)) {
        const targets = trainTargets(row)
        expect(targets.labels.length).toBe(row.trainableTokenCount)
        targets.rowIndices.forEach((t, n) => {
          expect(row.groupIds[t]).toBe(row.groupIds[t + 1])
          expect(targets.segmentIds[n]).toBe(row.groupIds[t])
          expect(targets.labels[n]).toBe(row.tokens[t + 1])
          expect((row.positions[t] ?? 0) + 1).toBe(row.positions[t + 1])
        })
      }
    })
  })

  it('never needs more tokens than storing sequences apart, and never exceeds the row length', () => {
    forSeeds(100, (rng) => {
      const sequences = randomSequences(rng, 60)
      const rows = packRows(sequences, options)
      const stored = rows.reduce((sum, row) => sum + row.usedLength, 0)
      expect(stored).toBeLessThanOrEqual(sequences.reduce((sum, s) => sum + s.tokenIds.length, 0))
      for (const row of rows) expect(row.tokens.length).toBeLessThanOrEqual(64)
    })
  })

  it('is deterministic', () => {
    forSeeds(20, (rng) => {
      const sequences = randomSequences(rng, 60)
      expect(packRows(sequences, options)).toEqual(packRows(sequences, options))
    })
  })

  it('stores the prompt of a group once, its last token in every completion', () => {
    const group = [7, 8, 9].map((id, trajectoryIndex) => sequenceOf([1, 2, 3, 4, id, id], [4, 5], { trajectoryIndex }))
    const rows = packRows(group, options)
    expect(rows.length).toBe(1)
    expect(rows[0]?.usedLength).toBe(3 + 3 * 3)
    expect(rows[0]?.sequences.map((s) => s.prefixLength)).toEqual([3, 3, 3])
  })

  it('repeats the prompt when a group needs several rows', () => {
    const prompt = Array.from({ length: 40 }, (_, t) => t)
    const group = Array.from({ length: 5 }, (_, i) =>
      sequenceOf([...prompt, ...Array(10).fill(100 + i)], [40], { trajectoryIndex: i }),
    )
    const rows = packRows(group, options)
    expect(rows.map((row) => row.sequences.length).sort()).toEqual([1, 2, 2])
    expect(unpacked(rows).sort()).toEqual(group.map(original).sort())
  })

  it('does not share prompts between groups', () => {
    const rows = packRows(
      [sequenceOf([1, 2, 3, 4], [3], { groupIndex: 0 }), sequenceOf([1, 2, 3, 5], [3], { groupIndex: 1 })],
      options,
    )
    expect(rows[0]?.usedLength).toBe(8)
  })

  it('packs fifty thousand short sequences of one group in seconds', () => {
    const group = Array.from({ length: 50_000 }, (_, i) => sequenceOf([1, 2, 3, i % 7, i], [4], { trajectoryIndex: i }))
    let rows: ReturnType<typeof packRows> = []
    const spentMs = leastCpuMs(1, () => {
      rows = packRows(group, options)
    })
    expect(spentMs).toBeLessThan(20_000)
    expect(rows.reduce((sum, row) => sum + row.sequences.length, 0)).toBe(50_000)
  })

  it('refuses a sequence that does not fit', () => {
    expect(() => packRows([sequenceOf(Array(65).fill(1), [64])], options)).toThrow(RangeError)
  })

  it('makes no row of nothing', () => {
    expect(packRows([], options)).toEqual([])
  })
})

describe('clusterByPrompt', () => {
  it('separates two prompts of one group instead of sharing their short common start', () => {
    const a = [1, 1, 1, 1, 1, 1]
    const b = [1, 2, 2, 2, 2, 2]
    const clusters = clusterByPrompt([a, b, a, b].map((prompt) => sequenceOf([...prompt, 9], [6])))
    expect(clusters.map((c) => ({ members: [...c.members].sort(), prefixLength: c.prefixLength }))).toEqual([
      { members: [0, 2], prefixLength: 5 },
      { members: [1, 3], prefixLength: 5 },
    ])
  })

  it('never shares a trained token', () => {
    const [cluster] = clusterByPrompt([sequenceOf([1, 2, 3, 4, 5], [2]), sequenceOf([1, 2, 3, 4, 6], [4])])
    expect(cluster?.prefixLength).toBe(1)
  })
})
