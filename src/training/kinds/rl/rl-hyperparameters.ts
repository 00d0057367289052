/**
 * What an RL job needs to know besides its trajectories: its options, and the loss that they describe.
 */
import type { OptionsOf } from '#contract/jobs/kinds.js'
import { type AdvantageEstimator, estimatorOf } from '#formats/rows/which-train.js'
import type { PolicyLossOptions } from '#numerics/nn/policy-loss.js'
import { formulaOf, type Hyperparameters, toHyperparameters } from '#training/trainer/hyperparameters.js'

export interface RlHyperparameters extends Omit<Hyperparameters<OptionsOf<'rl'>>, 'advantageEstimator'> {
  readonly advantageEstimator: AdvantageEstimator
  /** The loss and its modifiers, as the train graph takes them. */
  readonly policyLoss: PolicyLossOptions
}

/** @param options resolved */
export function rlHyperparameters(options: OptionsOf<'rl'>): RlHyperparameters {
  return { ...toHyperparameters(options), advantageEstimator: estimatorOf(options), policyLoss: toPolicyLoss(options) }
}

/** Two names are PPO with other options. */
const LOSS_OF = {
  cispo: 'cispo',
  ppo: 'ppo',
  gspo: 'ppo',
  dr_grpo: 'ppo',
  importance_sampling: 'importance_sampling',
  dro: 'dro',
  custom: 'formula',
} as const satisfies Record<OptionsOf<'rl'>['loss_fn'], PolicyLossOptions['loss']>

/** Whether the loss reads the log-probabilities of a reference. */
export function readsReference({ kl, klBeta }: Pick<PolicyLossOptions, 'kl' | 'klBeta'>): boolean {
  return kl !== null || klBeta > 0
}

function toPolicyLoss(options: OptionsOf<'rl'>): PolicyLossOptions {
  const { kl_penalty_coef: coefficient, truncated_importance_sampling: limit } = options
  const formula = formulaOf(options)
  return {
    loss: formula === null ? LOSS_OF[options.loss_fn] : 'formula',
    formula,
    epsilon: options.epsilon ?? Number.POSITIVE_INFINITY,
    epsilonHigh: options.epsilon_high ?? Number.POSITIVE_INFINITY,
    ratioLevel: options.importance_sampling_level,
    droBeta: options.dro_beta,
    entropyCoefficient: options.entropy_coef,
    klBeta: options.beta,
    maxRatio: options.max_negative_advantage_importance_sampling_weight,
    isMaskedOutsideClip: options.mask_prob_ratio,
    tau: options.alt_k2_tau,
    kl: coefficient === 0 ? null : { coefficient, source: options.kl_penalty_source, isMeanGiven: false },
    truncation: limit === null ? null : { limit, source: 'precalculated' },
  }
}
