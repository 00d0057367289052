/**
 * The numbers an RL gradient step reports, under the names that ART's client knows.
 *
 * All names are bare, all values finite; what does not exist (a mean of nothing) is left out.
 */
import { countBatch, rewardMetrics } from '#formats/rows/metrics.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import type { PackedRow } from '#training/rows/pack.js'
import { type RowBatch, rowOf } from '#training/trainer/row-batch.js'
import type { StepResult } from '#training/trainer/trainer.js'
import { boundedDrift } from './drift.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'
import type { Movement } from './trust-region.js'

/** Names that are averaged over steps into the checkpoint's metrics. */
export const GRADIENT_METRICS = [
  'loss',
  'entropy',
  'kl_div',
  'kl_policy_ref',
  'grad_norm',
  'learning_rate',
  'importance_ratio_mean',
  'importance_ratio_p99',
  'clipped_token_fraction',
  'update_kl',
  'update_scale',
] as const

/** The packed rows of one micro-batch of a step. */
export interface MeasuredBatch {
  readonly rows: readonly PackedRow[]
  readonly batch: RowBatch
  readonly referenceLogp: Float32Array | null
}

/** Facts of the job that every step repeats. */
export interface StepFacts {
  readonly groups: readonly TrajectoryGroup[]
  /** Groups with a trajectory that trains. */
  readonly groupsTrainable: number
  /** Of the step, before what its number of sequences makes of it. */
  readonly learningRate: number
  readonly hyperparameters: RlHyperparameters
  readonly elapsedMs: number
  /** How far the step moved the policy; null where nothing limits it. */
  readonly movement?: Movement | null
  /** Of which pass the step is, from 1; null where there is one. */
  readonly pass?: number | null
}

/**
 * Computes a step's event data.
 *
 * `kl_div` estimates KL(sampler ‖ learner) on the sampled tokens by mean(exp(x) - x - 1), x = learner - sampler (k3 of
 * http://joschu.net/blog/kl-approx.html); `kl_policy_ref` is the mean of learner - reference.
 */
export function rlStepMetrics(
  step: readonly MeasuredBatch[],
  result: Pick<StepResult, 'loss' | 'gradientNorm' | 'outputs'>,
  { groups, groupsTrainable, learningRate, hyperparameters, elapsedMs, movement = null, pass = null }: StepFacts,
): Record<string, number> {
  const ratios: number[] = []
  const entropies: number[] = []
  const sampled: number[] = []
  const fromReference: number[] = []
  step.forEach(({ rows, batch, referenceLogp }, at) => {
    const outputs = result.outputs[at]
    batch.trained.forEach((token, n) => {
      const logp = outputs?.logp[n] as number
      entropies.push(outputs?.entropy[n] as number)
      ratios.push(outputs?.ratio?.[n] as number)
      const drift = boundedDrift(logp - (rowOf(rows, token).logprobs[token.index] as number))
      if (!Number.isNaN(drift)) sampled.push(Math.exp(drift) - drift - 1)
      if (referenceLogp !== null) fromReference.push(logp - (referenceLogp[n] as number))
    })
  })
  const { epsilon, epsilonHigh } = hyperparameters.policyLoss
  const clipped = ratios.filter((ratio) => ratio < 1 - epsilon || ratio > 1 + epsilonHigh).length
  const counts = countBatch(groups)
  const used = step.flatMap(({ rows }) => rows).reduce((sum, { usedLength }) => sum + usedLength, 0)
  const data: Record<string, number> = {
    loss: result.loss,
    policy_loss: result.loss,
    entropy: mean(entropies),
    kl_div: mean(sampled),
    kl_policy_ref: mean(fromReference),
    grad_norm: result.gradientNorm,
    learning_rate: learningRate,
    importance_ratio_mean: mean(ratios),
    importance_ratio_p99: quantile(ratios, 0.99),
    clipped_token_fraction: clipped / ratios.length,
    ...(movement === null ? {} : { update_kl: movement.kl, update_scale: movement.scale }),
    ...(pass === null ? {} : { pass }),
    num_trainable_tokens: ratios.length,
    num_trajectories: counts.trajectories,
    num_groups_submitted: counts.groupsSubmitted,
    num_groups_trainable: groupsTrainable,
    ...rewardMetrics(groups),
    tokens_per_second: used / (elapsedMs / 1000),
  }
  return Object.fromEntries(Object.entries(data).filter(([, value]) => Number.isFinite(value)))
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** The smallest value that at least the fraction `q` of the values does not exceed. */
function quantile(values: readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] ?? Number.NaN
}
