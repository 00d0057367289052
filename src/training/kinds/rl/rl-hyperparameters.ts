/**
 * What an RL job needs to know besides its trajectories: its options, and the loss that they describe.
 */
import type { OptionsOf } from '#contract/jobs/kinds.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { type Hyperparameters, toHyperparameters } from '#training/trainer/hyperparameters.js'

export interface RlHyperparameters extends Hyperparameters<OptionsOf<'rl'>> {
  /** The loss and its modifiers, as the train graph takes them. */
  readonly policyLoss: PolicyLossOptions
}

/** @param options resolved */
export function rlHyperparameters(options: OptionsOf<'rl'>): RlHyperparameters {
  return { ...toHyperparameters(options), policyLoss: toPolicyLoss(options) }
}

function toPolicyLoss(options: OptionsOf<'rl'>): PolicyLossOptions {
  const { kl_penalty_coef: coefficient, truncated_importance_sampling: limit } = options
  return {
    loss: options.loss_fn,
    epsilon: required(options.epsilon, 'epsilon'),
    epsilonHigh: required(options.epsilon_high, 'epsilon_high'),
    ratioLevel: options.importance_sampling_level,
    maxRatio: options.max_negative_advantage_importance_sampling_weight,
    isMaskedOutsideClip: options.mask_prob_ratio,
    tau: options.alt_k2_tau,
    kl: coefficient === 0 ? null : { coefficient, source: options.kl_penalty_source, isMeanGiven: false },
    truncation: limit === null ? null : { limit, source: 'precalculated' },
  }
}

/** A clip range follows from the loss when options are resolved. */
function required(value: number | null, name: string): number {
  if (value === null) throw new Error(`the options of the job were not resolved: ${name} is null`)
  return value
}
