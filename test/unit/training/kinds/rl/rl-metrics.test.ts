/**
 * Numbers of an RL gradient step from made-up outputs.
 */
import { describe, expect, it } from 'vitest'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { rlStepMetrics } from '#training/kinds/rl/rl-metrics.js'
import { packRows } from '#training/rows/pack.js'
import { toRowBatch } from '#training/trainer/row-batch.js'
import { resolveRlConfig } from '../../../../support/model/job-options.js'

const group = (rewards: readonly number[]): TrajectoryGroup => ({
  trajectories: rewards.map((reward) => ({
    histories: [],
    reward,
    initialPolicyVersion: null,
    finalPolicyVersion: null,
    metrics: {},
    metadata: {},
    unsupportedExchangeCount: 0,
  })),
  exceptions: [{ type: 'Error', message: 'x' }],
  metadata: {},
  metrics: {},
})

function step(logprobs: readonly number[]) {
  const length = logprobs.length + 1
  const [row] = packRows(
    [
      {
        tokenIds: Int32Array.from({ length }, (_, t) => t),
        lossMask: Uint8Array.from({ length }, (_, t) => (t === 0 ? 0 : 1)),
        logprobs: Float32Array.of(Number.NaN, ...logprobs),
        advantage: 1,
        weight: 1,
        trainableTokenCount: logprobs.length,
        groupIndex: 0,
        trajectoryIndex: 0,
        isTruncated: false,
      },
    ],
    { rowLength: 32, padTokenId: 0, padMultiple: 8 },
  )
  return { rows: [row!], batch: toRowBatch([row!]), referenceLogp: null }
}

describe('rlStepMetrics', () => {
  const outputs = {
    logp: Float32Array.of(-1, -2, -3, -4),
    entropy: Float32Array.of(0.5, 1, 1.5, 2),
    ratio: Float32Array.of(1, 1, 6, 1),
  }
  const facts = {
    groups: [group([1, 0])],
    groupsTrainable: 1,
    learningRate: 5e-6,
    hyperparameters: resolveRlConfig({}),
    elapsedMs: 500,
  }

  it('reports a drift of a token that the sampler thought impossible', () => {
    const data = rlStepMetrics([step([-1, -9999, -3, -4])], { loss: 0, gradientNorm: 0, outputs: [outputs] }, facts)
    expect(data['kl_div']).toBeCloseTo((Math.exp(30) - 31) / 4, 0)
  })

  it('measures ratios, entropy and drift over the trained tokens', () => {
    const data = rlStepMetrics([step([-1, -2, -3.5, -4])], { loss: 0.25, gradientNorm: 3, outputs: [outputs] }, facts)
    expect(data).toMatchObject({
      loss: 0.25,
      policy_loss: 0.25,
      grad_norm: 3,
      entropy: 1.25,
      importance_ratio_mean: 2.25,
      importance_ratio_p99: 6,
      clipped_token_fraction: 0.25,
      num_trainable_tokens: 4,
      num_trajectories: 2,
      reward: 0.5,
      reward_std_dev: 0.5,
      tokens_per_second: 10,
    })
    expect(data['exception_rate']).toBeCloseTo(1 / 3, 10)
    expect(data['kl_div']).toBeCloseTo((Math.exp(0.5) - 0.5 - 1) / 4, 6)
  })

  it('leaves out what does not exist, so that every value is finite', () => {
    const unknown = step([Number.NaN, Number.NaN, Number.NaN, Number.NaN])
    const data = rlStepMetrics([unknown], { loss: 1, gradientNorm: 1, outputs: [outputs] }, facts)
    expect(data).not.toHaveProperty('kl_div')
    expect(data).not.toHaveProperty('kl_policy_ref')
    expect(Object.values(data).every(Number.isFinite)).toBe(true)
  })

  it('counts padding of the outputs as nothing', () => {
    const padded = {
      logp: Float32Array.of(...outputs.logp, -99),
      entropy: Float32Array.of(...outputs.entropy, 99),
      ratio: Float32Array.of(...outputs.ratio, 99),
    }
    const data = rlStepMetrics([step([-1, -2, -3, -4])], { loss: 1, gradientNorm: 1, outputs: [padded] }, facts)
    expect(data['entropy']).toBe(1.25)
    expect(data['importance_ratio_p99']).toBe(6)
  })
})
