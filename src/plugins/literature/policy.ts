/**
 * Policy losses, of a token each; weights, aggregation and modifiers are those of every RL job. Sources stand at each; compared
 * in `test/plugins/literature` with formulas of their own and with what TRL and verl compute.
 */
import type { LossDefinition } from '#contract/jobs/losses.js'

/** Names of other options, where a loss takes no ratio. */
const RATIO = ['importance_sampling_level', 'max_negative_advantage_importance_sampling_weight'] as const

/**
 * Dual clip: PPO whose loss of a negative advantage is bounded, too: the ratio counts at most `delta` there.
 *
 * Source: arXiv:1912.09729, equation 5; as two-sided clipping INTELLECT-2, arXiv:2505.07291, section 3.4, and TRL's `delta`.
 */
const dualClip: LossDefinition = {
  kind: 'rl',
  name: 'dual_clip',
  summary: 'PPO with a bound on ratios of negative advantages',
  source: 'arXiv:1912.09729',
  like: 'ppo',
  unread: ['max_negative_advantage_importance_sampling_weight'],
  options: {
    delta: { default: 4, bounds: { min: 1, max: 1e6 }, summary: 'most that a ratio counts at a negative advantage' },
  },
  loss(
    { ratio, advantage },
    { mul, min, max, clip, neg, where, less },
    { epsilon = 0.2, epsilon_high = 0.2, delta = 4 },
  ) {
    const gain = min(mul(ratio, advantage), mul(clip(ratio, 1 - epsilon, 1 + epsilon_high), advantage))
    return neg(where(less(advantage, 0), max(gain, mul(advantage, delta)), gain))
  },
}

/**
 * SAPO: a soft gate in place of the clip, 4/τ · σ(τ (ρ − 1)), steeper for negative advantages.
 *
 * Source: arXiv:2511.20347, equations 5 and 6; the default temperatures are its.
 */
const sapo: LossDefinition = {
  kind: 'rl',
  name: 'sapo',
  summary: 'a soft gate in place of the clip',
  source: 'arXiv:2511.20347',
  like: 'importance_sampling',
  options: {
    sapo_temperature_pos: {
      default: 1,
      bounds: { min: 1e-3, max: 100 },
      summary: 'temperature of the gate at positive advantages',
    },
    sapo_temperature_neg: { default: 1.05, bounds: { min: 1e-3, max: 100 }, summary: 'the same at others' },
  },
  loss({ ratio, advantage }, { mul, div, sub, neg, sigmoid, where, greater }, o) {
    const { sapo_temperature_pos: positive = 1, sapo_temperature_neg: negative = 1.05 } = o
    const temperature = where(greater(advantage, 0), positive, negative)
    const gate = mul(sigmoid(mul(temperature, sub(ratio, 1))), div(4, temperature))
    return neg(mul(gate, advantage))
  },
}

/**
 * GPG: the plain policy gradient, without a ratio.
 *
 * Source: arXiv:2504.02546, equation 6. Its advantages are of groups without a division: `scale_rewards` false.
 */
const gpg: LossDefinition = {
  kind: 'rl',
  name: 'gpg',
  summary: 'the log-probability times the advantage, without a ratio',
  source: 'arXiv:2504.02546',
  like: 'importance_sampling',
  unread: RATIO,
  sets: { scale_rewards: false, loss_aggregation: 'constant' },
  loss: ({ logp, advantage }, { mul, neg }) => neg(mul(logp, advantage)),
}

/** GSPO's range: arXiv:2507.18071, section 5.1. */
const SEQUENCE_RANGE = { epsilon: 3e-4, epsilon_high: 4e-4 } as const

/**
 * LUSPO: GSPO whose loss of a sequence is multiplied by its length, so that long answers are not pulled less for being long.
 *
 * Source: arXiv:2602.05261, equation 5. Tokens all count the same (`constant`): a sequence counts as often as it has tokens.
 */
const luspo: LossDefinition = {
  kind: 'rl',
  name: 'luspo',
  summary: 'GSPO with every sequence weighted by its length',
  source: 'arXiv:2602.05261',
  like: 'ppo',
  sets: { importance_sampling_level: 'sequence', loss_aggregation: 'constant', ...SEQUENCE_RANGE },
  loss: ({ ratio, advantage }, { mul, min, clip, neg }, { epsilon = 0, epsilon_high = 0 }) =>
    neg(min(mul(ratio, advantage), mul(clip(ratio, 1 - epsilon, 1 + epsilon_high), advantage))),
}

/**
 * GSPO-token: GSPO's value, with advantages that may differ between tokens: s = sg(sequence ratio) · π / sg(π).
 *
 * Source: arXiv:2507.18071, equations 13 and 14.
 */
const gspoToken: LossDefinition = {
  kind: 'rl',
  name: 'gspo_token',
  summary: 'GSPO with an advantage for each token',
  source: 'arXiv:2507.18071',
  like: 'ppo',
  unread: RATIO,
  sets: SEQUENCE_RANGE,
  loss({ logp, logRatio, advantage }, { mul, min, clip, neg, exp, stop, sub, add, sequenceMean }, o) {
    const { epsilon = 0, epsilon_high = 0 } = o
    const ratio = exp(add(stop(sequenceMean(logRatio)), sub(logp, stop(logp))))
    return neg(min(mul(ratio, advantage), mul(clip(ratio, 1 - epsilon, 1 + epsilon_high), advantage)))
  },
}

/**
 * GMPO: the geometric mean of a sequence's ratios, each clipped before; ε are those of log ratios.
 *
 * Source: arXiv:2507.20673, equation 5 and algorithm 1; clips of (e^−0.4, e^0.4): section 4.1. As all tokens of a sequence have
 * its loss, `trajectory` aggregation is the paper's mean over sequences.
 */
const gmpo: LossDefinition = {
  kind: 'rl',
  name: 'gmpo',
  summary: "the geometric mean of a sequence's clipped ratios",
  source: 'arXiv:2507.20673',
  like: 'ppo',
  unread: [...RATIO, 'mask_prob_ratio'],
  sets: { epsilon: 0.4, epsilon_high: 0.4 },
  loss({ logRatio, advantage }, { mul, min, max, clip, neg, exp, where, less, sequenceMean }, o) {
    const { epsilon = 0.4, epsilon_high = 0.4 } = o
    const clipped = clip(logRatio, -epsilon, epsilon_high)
    const pessimistic = where(less(advantage, 0), max(logRatio, clipped), min(logRatio, clipped))
    return neg(mul(exp(sequenceMean(pessimistic)), advantage))
  },
}

export const POLICY_LOSSES: readonly LossDefinition[] = [dualClip, sapo, gpg, luspo, gspoToken, gmpo]
