/**
 * AdamW and clipping: the values ART trains with.
 */

export interface OptimizerSettings {
  readonly beta1: number
  readonly beta2: number
  readonly epsilon: number
  readonly weightDecay: number
  /** Largest global norm of the gradient. */
  readonly maxGradientNorm: number
}

export const RL_OPTIMIZER: OptimizerSettings = {
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0.1,
  maxGradientNorm: 0.1,
}
export const SFT_OPTIMIZER: OptimizerSettings = {
  beta1: 0.9,
  beta2: 0.99,
  epsilon: 1e-8,
  weightDecay: 0,
  maxGradientNorm: 1,
}
