/** The float64 reference of the policy loss against every published vector, and against central differences. */
import { describe, expect, it } from 'vitest'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { normalizeBatch, trajectoryWeight } from '#training/rows/advantages.js'
import vectors from '../../../fixtures/trajectories/policy-loss-vectors.json' with { type: 'json' }
import { resolveRlConfig } from '../../../support/model/job-options.js'
import { forSeeds } from '../../../support/model/random-trajectories.js'
import { type PolicyLossInput, policyLossReference } from '../../../support/reference/policy-loss-reference.js'

const { logprobs, samplerLogprobs, rawAdvantages, segmentIds } = vectors.input
const coefficients = normalizeBatch(
  rawAdvantages.map((advantage, i) => {
    const tokens = segmentIds.filter((id) => id === i).length
    return { advantage, weight: trajectoryWeight(tokens, 'trajectory'), trainableTokenCount: tokens }
  }),
  0,
)
const row: PolicyLossInput = {
  logprobs,
  samplerLogprobs,
  segmentIds,
  advantages: segmentIds.map((id) => coefficients[id].advantage),
  weights: segmentIds.map((id) => coefficients[id].weight),
}

describe('policyLossReference on the published row', () => {
  for (const vector of vectors.cases) {
    it(`gives loss and gradient of: ${vector.name}`, () => {
      const { truncation, ...options } = resolveRlConfig(vector.config).policyLoss
      const isByRatio = truncation !== null && vector.truncateModifiedRatio === true
      const config = { ...options, truncation: isByRatio ? { ...truncation, source: 'ratio' as const } : truncation }
      const { loss, gradient } = policyLossReference(row, config)
      expect(loss).toBeCloseTo(vector.loss, 5)
      gradient.forEach((value, t) => {
        expect(value).toBeCloseTo(vector.gradient[t], 5)
      })
    })
  }
})

/**
 * The same loss with everything detached held at `at`, so that central differences see what the gradient should see.
 * Only PPO has a gradient through the ratio; CISPO's is checked in closed form.
 */
function centralDifference(input: PolicyLossInput, config: PolicyLossOptions, t: number): number {
  const step = 1e-6
  const moved = (delta: number): number =>
    policyLossReference(
      { ...input, logprobs: Array.from(input.logprobs, (value, u) => (u === t ? value + delta : value)) },
      config,
    ).loss
  return (moved(step) - moved(-step)) / (2 * step)
}

describe('policyLossReference', () => {
  const levels = ['token', 'sequence', 'average', 'geometric_average'] as const

  for (const level of levels) {
    it(`has the gradient of central differences for PPO at level ${level}`, () => {
      forSeeds(40, (rng) => {
        const count = 2 + rng.integer(6)
        const input: PolicyLossInput = {
          logprobs: Array.from({ length: count }, () => -rng.uniform() * 3),
          samplerLogprobs: Array.from({ length: count }, () => -rng.uniform() * 3),
          advantages: Array.from({ length: count }, () => rng.normal()),
          weights: Array.from({ length: count }, () => rng.uniform() + 0.5),
          segmentIds: Array.from({ length: count }, () => rng.integer(2)),
        }
        const config = resolveRlConfig({
          ppo: true,
          importance_sampling_level: level,
          max_negative_advantage_importance_sampling_weight: 3,
        }).policyLoss
        const { gradient } = policyLossReference(input, config)
        gradient.forEach((value, t) => {
          expect(Math.abs(value - centralDifference(input, config, t))).toBeLessThan(1e-6)
        })
      })
    })
  }

  it('uses ratio 1 where the sampler is unknown', () => {
    const input = { ...row, samplerLogprobs: samplerLogprobs.map(() => Number.NaN) }
    const { ratios, gradient } = policyLossReference(input, resolveRlConfig({}).policyLoss)
    expect(ratios).toEqual([1, 1, 1, 1, 1])
    gradient.forEach((value, t) => {
      expect(value).toBeCloseTo((-row.advantages[t] * row.weights[t]) / 5, 12)
    })
  })

  it('truncates by the sampler-to-trainer ratio when log-probabilities are precalculated', () => {
    const config = resolveRlConfig({ truncated_importance_sampling: 2 }).policyLoss
    const { gradient, ratios } = policyLossReference({ ...row, precalculatedLogprobs: logprobs }, config)
    expect(ratios).toEqual([1, 1, 1, 1, 1])
    logprobs.forEach((value, t) => {
      const correction = Math.min(Math.exp(value - samplerLogprobs[t]), 2)
      expect(gradient[t]).toBeCloseTo((-correction * row.advantages[t] * row.weights[t]) / 5, 12)
    })
  })

  it('gives a masked token zero gradient under PPO too', () => {
    const { gradient } = policyLossReference(row, resolveRlConfig({ ppo: true, mask_prob_ratio: true }).policyLoss)
    expect(gradient[3]).toBe(0)
    expect(gradient[1]).not.toBe(0)
  })

  it('only redistributes credit by the KL penalty: shaped advantages keep their sum', () => {
    const config = resolveRlConfig({ kl_penalty_coef: 0.3 }).policyLoss
    const { shapedAdvantages } = policyLossReference({ ...row, referenceLogprobs: samplerLogprobs }, config)
    const sum = (values: ArrayLike<number>): number => Array.from(values).reduce((a, b) => a + b, 0)
    expect(sum(shapedAdvantages)).toBeCloseTo(sum(row.advantages), 12)
    expect(shapedAdvantages[3]).toBeLessThan(row.advantages[3])
    expect(shapedAdvantages[0]).toBeCloseTo(row.advantages[0] + 0.3 * (0.36 - 0.2), 12)
  })

  it('gives every token of a sequence the same ratio at sequence level', () => {
    const { ratios } = policyLossReference(row, resolveRlConfig({ importance_sampling_level: 'sequence' }).policyLoss)
    expect(ratios[0]).toBe(ratios[1])
    expect(ratios[0]).toBeCloseTo(Math.exp(0.1), 12)
  })
})
