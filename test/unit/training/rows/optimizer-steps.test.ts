/** What one optimizer step covers: the library's packed rows, whatever rows a machine computes. */
import { describe, expect, it } from 'vitest'
import { partitionSteps, stepLengthFor } from '#training/rows/optimizer-steps.js'
import type { TrainingSequence } from '#training/rows/tokenize.js'
import goldens from '../../../goldens/optimizer-steps.json' with { type: 'json' }
import { forSeeds, randomSequences, sequenceOf } from '../../../support/model/random-trajectories.js'

/** The token ids of a golden's item; the same formula as in test/goldens/make_step_goldens.py. */
function toSequence(item: readonly number[], index: number): TrainingSequence {
  const [group = 0, system = 0, systemLength = 0, prompt = 0, promptLength = 0, completionLength = 0] = item
  const ids = [
    ...Array.from({ length: systemLength }, (_, i) => (system * 13 + i) % 50),
    ...Array.from({ length: promptLength }, (_, i) => 100 + ((i < 20 ? i : prompt * 7 + i) % 50)),
    ...Array(completionLength).fill(1000 + index),
  ]
  const trained = Array.from({ length: completionLength }, (_, t) => systemLength + promptLength + t)
  return sequenceOf(ids, trained, { groupIndex: group, trajectoryIndex: index })
}

const indicesOf = (steps: readonly (readonly TrainingSequence[])[]): number[][] =>
  steps.map((step) => step.map(({ trajectoryIndex }) => trajectoryIndex)).sort((a, b) => (a[0] ?? 0) - (b[0] ?? 0))

describe('partitionSteps', () => {
  goldens.forEach(({ stepLength, items, steps }, n) => {
    it(`puts into one step what the library packs into one row, case ${n}`, () => {
      const expected = [...steps].sort((a, b) => (a[0] ?? 0) - (b[0] ?? 0))
      expect(indicesOf(partitionSteps(items.map(toSequence), { stepLength, seed: n }))).toEqual(expected)
    })
  })

  it('gives every sequence exactly once, in an order that follows from the seed', () => {
    forSeeds(60, (rng) => {
      const sequences = randomSequences(rng, 60).map((s, i) => ({ ...s, trajectoryIndex: i }))
      const steps = partitionSteps(sequences, { stepLength: 64, seed: 'a' })
      expect(
        steps
          .flat()
          .map((s) => s.trajectoryIndex)
          .sort((a, b) => a - b),
      ).toEqual([...sequences.keys()])
      expect(partitionSteps(sequences, { stepLength: 64, seed: 'a' })).toEqual(steps)
      expect(indicesOf(partitionSteps(sequences, { stepLength: 64, seed: 'b' }))).toEqual(indicesOf(steps))
    })
  })

  it('makes a step of its own for a sequence longer than a step', () => {
    const long = sequenceOf(
      Array.from({ length: 100 }, (_, t) => t),
      [99],
      { groupIndex: 1, trajectoryIndex: 1 },
    )
    const short = sequenceOf([1, 2, 3], [2], { trajectoryIndex: 0 })
    expect(indicesOf(partitionSteps([short, long], { stepLength: 64, seed: 0 }))).toEqual([[0], [1]])
  })

  it('partitions fifty thousand short sequences of one group, a long common prompt or none', () => {
    for (const prompt of [3, 70]) {
      const group = Array.from({ length: 50_000 }, (_, i) =>
        sequenceOf([...Array(prompt).fill(1), i % 7, i], [prompt + 1], { trajectoryIndex: i }),
      )
      const steps = partitionSteps(group, { stepLength: 2048, seed: 0 })
      expect(steps.flat().length).toBe(50_000)
    }
  })

  it('makes no step of nothing', () => {
    expect(partitionSteps([], { stepLength: 64, seed: 0 })).toEqual([])
  })
})

describe('stepLengthFor', () => {
  const automatic = { tokensPerStep: null, packedSequenceLength: null, contextLength: 8192 }
  it('rounds the longest sequence up to a multiple of 2048, within the context', () => {
    expect(stepLengthFor([10, 300], automatic)).toBe(2048)
    expect(stepLengthFor([2049], automatic)).toBe(4096)
    expect(stepLengthFor([300], { ...automatic, contextLength: 512 })).toBe(512)
    expect(stepLengthFor([], automatic)).toBe(2048)
  })
  it('yields to a packed row length, and that to tokens per step', () => {
    expect(stepLengthFor([300], { ...automatic, packedSequenceLength: 700 })).toBe(700)
    expect(stepLengthFor([300], { ...automatic, packedSequenceLength: 700, tokensPerStep: 256 })).toBe(256)
  })
})
