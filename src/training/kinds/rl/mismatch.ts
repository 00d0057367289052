/**
 * How far the sampler's log-probabilities lie from the trainer's for the same tokens and the same weights, and what follows.
 *
 * Serving may round where training does not (int8 products), and data may come from other weights than it says. Measured on the
 * tokens of the first optimizer step, before its update: those log-probabilities are computed anyway.
 */
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import { isSampledFrom } from '#training/rows/row-sampling.js'
import type { Mismatch, SamplerDecision } from '#training/trainer/decisions.js'
import type { TokenOutputs } from '#training/trainer/learner/learner.js'
import { rowOf } from '#training/trainer/row-batch.js'
import { boundedDrift } from './drift.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'
import type { MeasuredBatch } from './rl-metrics.js'

/**
 * Mean divergence, nats per token, above which the sampler's numbers are not used. Rounding to int8 gives a few thousandths;
 * a token is then, on average, sampled at a probability a fifth away from the trainer's.
 */
export const MISMATCH_LIMIT = 0.02

/** @returns null when no token carries the sampler's log-probability */
export function measureMismatch(
  step: readonly MeasuredBatch[],
  outputs: readonly Pick<TokenOutputs, 'logp'>[],
  { policyLoss: { epsilon, epsilonHigh } }: Pick<RlHyperparameters, 'policyLoss'>,
): Mismatch | null {
  const drifts: number[] = []
  step.forEach(({ rows, batch }, at) => {
    batch.trained.forEach((token, n) => {
      const drift = (outputs[at]?.logp[n] ?? Number.NaN) - (rowOf(rows, token).logprobs[token.index] ?? Number.NaN)
      if (!Number.isNaN(drift)) drifts.push(boundedDrift(drift))
    })
  })
  if (drifts.length === 0) return null
  const sorted = Float64Array.from(drifts).sort()
  const ratioAt = (q: number): number =>
    Math.exp(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0)
  const isClipped = (drift: number): boolean => Math.exp(drift) < 1 - epsilon || Math.exp(drift) > 1 + epsilonHigh
  return {
    tokens: drifts.length,
    kl: drifts.reduce((sum, x) => sum + Math.exp(x) - x - 1, 0) / drifts.length,
    ratioP01: ratioAt(0.01),
    ratioP50: ratioAt(0.5),
    ratioP99: ratioAt(0.99),
    clippedShare: drifts.filter(isClipped).length / drifts.length,
  }
}

/**
 * Whether old log-probabilities shall be computed by the trainer although nobody asked: the mismatch is beyond the limit, and
 * every trajectory says that it was sampled from the step the job starts from. Data of other or unknown weights keeps the
 * sampler's numbers: their ratios are what corrects for it.
 */
export function shouldRecompute(
  mismatch: Mismatch | null,
  groups: readonly TrajectoryGroup[],
  currentStep: number | undefined,
): boolean {
  if (mismatch === null || mismatch.kl <= MISMATCH_LIMIT || currentStep === undefined) return false
  return groups.every((group) => group.trajectories.every((trajectory) => isSampledFrom(trajectory, currentStep)))
}

/** A sentence about a divergence beyond the limit; none where the job was asked to ignore the sampler's numbers. */
export function mismatchNotes({ kl, isRecomputed }: SamplerDecision, isPrecalculated: boolean): string[] {
  if (kl <= MISMATCH_LIMIT || isPrecalculated) return []
  const figures = `the sampler's log-probabilities diverge from the trainer's by ${kl.toPrecision(2)} nats per token (limit ${MISMATCH_LIMIT})`
  return [
    isRecomputed
      ? `${figures}: the trainer computed them again, as with precalculate_logprobs`
      : `${figures}: the data was sampled from other weights, at a temperature or from tokens that it does not say (sampling), or is not of this service; precalculate_logprobs ignores the sampler's`,
  ]
}
