/** Sampler against trainer: the figures, and when the trainer's numbers are used unasked. */
import { describe, expect, it } from 'vitest'
import { parseTrajectoryGroups } from '#formats/rows/parse.js'
import { MISMATCH_LIMIT, measureMismatch, mismatchNotes, shouldRecompute } from '#training/kinds/rl/mismatch.js'
import { decisionOf, mismatchFacts } from '#training/trainer/decisions.js'
import { sequenceRow, toRowBatch } from '#training/trainer/row-batch.js'
import { resolveRlConfig } from '../../../../support/model/job-options.js'

/** One row whose tokens the sampler gave these log-probabilities. */
function step(sampler: readonly number[]) {
  const length = sampler.length + 1
  const row = {
    ...sequenceRow(
      new Int32Array(length),
      Uint8Array.from({ length }, (_, t) => (t === 0 ? 0 : 1)),
    ),
    logprobs: Float32Array.of(Number.NaN, ...sampler),
    advantages: new Float32Array(length),
    weights: new Float32Array(length),
    sequences: [],
    usedLength: length,
    trainableTokenCount: length - 1,
  }
  return [{ rows: [row], batch: toRowBatch([row]), referenceLogp: null }]
}
const hyperparameters = resolveRlConfig({ ppo: true })
const measure = (sampler: readonly number[], trainer: readonly number[]) =>
  measureMismatch(step(sampler), [{ logp: Float32Array.from(trainer) }], hyperparameters)

const versions = (...pairs: (readonly [number | null, number | null])[]) =>
  parseTrajectoryGroups([
    {
      trajectories: pairs.map(([initial, final]) => ({
        reward: 0,
        messages_and_choices: [],
        initial_policy_version: initial,
        final_policy_version: final,
      })),
    },
  ])

describe('measureMismatch', () => {
  it('is nothing where sampler and trainer agree', () => {
    expect(measure([-1, -2], [-1, -2])).toEqual({
      tokens: 2,
      kl: 0,
      ratioP01: 1,
      ratioP50: 1,
      ratioP99: 1,
      clippedShare: 0,
    })
  })

  it('stays finite whatever the sampler said of a token it thought impossible', () => {
    const mismatch = measure([-9999, Number.NEGATIVE_INFINITY, -1], [-1, -1, -9999])!
    expect(mismatch.tokens).toBe(3)
    for (const figure of Object.values(mismatch)) expect(Number.isFinite(figure)).toBe(true)
    expect(mismatch.kl).toBeGreaterThan(1)
  })

  it('follows the formula, over the tokens with a known log-probability', () => {
    const mismatch = measure([-1, -2, Number.NaN, -3], [-1.5, -2, -1, -2])!
    const k3 = (x: number): number => Math.exp(x) - x - 1
    expect(mismatch.tokens).toBe(3)
    expect(mismatch.kl).toBeCloseTo((k3(-0.5) + k3(0) + k3(1)) / 3, 6)
    expect(mismatch.ratioP01).toBeCloseTo(Math.exp(-0.5), 6)
    expect(mismatch.ratioP99).toBeCloseTo(Math.E, 5)
    // PPO's range is 0.8 to 1.2: two of three lie outside
    expect(mismatch.clippedShare).toBeCloseTo(2 / 3, 6)
  })

  it('is unknown without the sampler', () => {
    expect(measure([Number.NaN], [-1])).toBeNull()
  })
})

describe('shouldRecompute', () => {
  const far = measure([-1, -2], [-2, -1])
  it('is true for data of the starting step alone', () => {
    expect(far!.kl).toBeGreaterThan(MISMATCH_LIMIT)
    expect(shouldRecompute(far, versions([3, 3], [3, null]), 3)).toBe(true)
    expect(shouldRecompute(far, versions([3, 3], [2, 3]), 3)).toBe(false)
    expect(shouldRecompute(far, versions([null, null]), 3)).toBe(false)
    expect(shouldRecompute(far, versions([3, 3]), undefined)).toBe(false)
    expect(shouldRecompute(measure([-1], [-1.01]), versions([3, 3]), 3)).toBe(false)
    expect(shouldRecompute(null, versions([3, 3]), 3)).toBe(false)
  })

  it('is said on the report', () => {
    const said = (isPrecalculated: boolean, isRecomputed: boolean): string[] => {
      const decision = { ...far!, isRecomputed }
      expect(mismatchFacts(decision)).toMatchObject({ tokens: 2, recomputed: isRecomputed ? 1 : 0 })
      // as resume points of earlier versions hold it
      expect(decisionOf(mismatchFacts(decision))).toEqual(decision)
      return mismatchNotes(decision, isPrecalculated)
    }
    expect(said(false, true)).toEqual([expect.stringContaining('the trainer computed them again')])
    expect(said(false, false)).toEqual([
      expect.stringMatching(/sampled from other weights, at a temperature or from tokens that it does not say/),
    ])
    expect(said(true, false)).toEqual([])
  })
})
