/**
 * Settings of AdamW and gradient clipping, from a job's options.
 */
import type { OptimizerOptions } from '#contract/jobs/shared-options.js'
import type { Hyperparameters } from './hyperparameters.js'

export interface OptimizerSettings {
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
  /** Largest global norm of the gradient; infinite where nothing is clipped. */
  readonly maxGradientNorm: number
  /** The rate of B as a multiple of the learning rate (LoRA+, arXiv:2402.12354); absent: 1. */
  readonly outputRateRatio?: number
}

/** @param options of the job */
export function optimizerSettings(options: Hyperparameters<OptimizerOptions>): OptimizerSettings {
  const { adamBeta1: beta1, adamBeta2: beta2, adamEpsilon: epsilon, weightDecay, maxGradNorm } = options
  const maxGradientNorm = maxGradNorm === 0 ? Number.POSITIVE_INFINITY : maxGradNorm
  const ratio = options.loraplusLrRatio
  return { beta1, beta2, epsilon, weightDecay, maxGradientNorm, ...(ratio === 1 ? {} : { outputRateRatio: ratio }) }
}

/** What supervised jobs train with unless they say otherwise. */
export const SFT_OPTIMIZER: OptimizerSettings = {
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}
