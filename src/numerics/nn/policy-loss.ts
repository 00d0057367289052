/**
 * Policy-gradient losses as graph operators: CISPO, PPO, plain importance sampling and DRO, four levels of importance ratio, and
 * ART's modifiers.
 *
 * Emits the value only; the gradient comes from autodiff like any other, with `stopGradient` where the formulas have it.
 * Formulas: `src/docs/reference/how-training-works.md`. Sources: CISPO (arXiv:2506.13585), PPO (arXiv:1707.06347), GSPO
 * (arXiv:2507.18071), importance sampling and DRO (arXiv:2405.19107) in the form that Tinker's API documents, the k3 term of GRPO
 * (arXiv:2402.03300, equation 4). Differences from ART: `mask_prob_ratio` masks after the clip, so that a masked
 * token has no gradient in CISPO either; log ratios are clamped to ±30, so that no ratio overflows float32.
 */

import { type Formula, hasOperator } from '#base/formula/formula.js'
import { assertNever } from '#base/util/assert-never.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import {
  add,
  and,
  cast,
  clip,
  div,
  exp,
  isNaN as isNaNValue,
  less,
  maximum,
  minimum,
  mul,
  neg,
  sqrt,
  stopGradient,
  sub,
  where,
} from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { unsqueeze } from '#numerics/graph/ops/shape.js'
import { emitFormula } from './formula.js'

/** Bound of log ratios: no ratio overflows float32, whatever the sampler said (vLLM writes -9999 for a probability of 0). */
export const MAX_LOG_RATIO = 30

/** Over which tokens the importance ratio is taken. */
export type RatioLevel = 'token' | 'sequence' | 'average' | 'geometric_average'

/** What shapes the loss; null switches a modifier off. */
export interface PolicyLossOptions extends RegularizerOptions {
  readonly loss: 'cispo' | 'ppo' | 'importance_sampling' | 'dro' | 'formula'
  /** The loss of a token, of `POLICY_INPUTS`; read by `formula`. */
  readonly formula?: Formula | null
  /** The ratio is clipped to [1 - epsilon, 1 + epsilonHigh]; infinite where a loss clips nothing. */
  readonly epsilon: number
  readonly epsilonHigh: number
  readonly ratioLevel: RatioLevel
  /** Weight of the squared log ratio; read by `dro`. */
  readonly droBeta: number
  /**
   * Upper bound of the ratio before clipping, for all tokens whatever the sign of their advantage (as ART does in spite of
   * the field's name, `max_negative_advantage_importance_sampling_weight`).
   */
  readonly maxRatio: number | null
  /** Whether tokens with a ratio outside the clip range take no part (`mask_prob_ratio`). */
  readonly isMaskedOutsideClip: boolean
  /** `kimi_k2_tau`: this times the log ratio is subtracted from the advantages. */
  readonly tau: number | null
  /** KL shaping of advantages; null for none. */
  readonly kl: KlOptions | null
  /**
   * Truncated importance sampling. `precalculated` corrects sampler against trainer at the old weights; `ratio` multiplies
   * by the ratio once more, ART's behaviour without precalculation, which our trainer never asks for.
   */
  readonly truncation: { readonly limit: number; readonly source: 'precalculated' | 'ratio' } | null
}

/** What is added to the policy loss, each a mean over the trained tokens of the optimizer step with their weights. */
export interface RegularizerOptions {
  /** Weight of the entropy, taken from the loss; 0 for none. */
  readonly entropyCoefficient: number
  /** Weight of the divergence from the reference, k3; 0 for none. */
  readonly klBeta: number
}

/** How advantages are shaped by the divergence from a reference policy. */
export interface KlOptions {
  readonly coefficient: number
  /** Whose log-probabilities are compared with the reference's. */
  readonly source: 'current_learner' | 'sample'
  /** The mean of k over the optimizer step is an input, because the step has more rows than these; else theirs is taken. */
  readonly isMeanGiven: boolean
}

/** Values per trainable token, all float32 [N] unless noted. Padding has mask 0 and weight 0. */
export interface PolicyLossInputs {
  /** Log-probabilities to differentiate. */
  readonly logp: Value
  /** Log-probabilities the ratio is taken against; NaN means the current policy. */
  readonly oldLogp: Value
  readonly advantage: Value
  readonly weight: Value
  /** 1 for a token, 0 for padding. */
  readonly mask: Value
  /** What the sum is divided by: the trainable tokens of the whole optimizer step. Float32 []. */
  readonly denominator: Value
  /** Membership [N, G] of tokens in sequences, 0 or 1; needed for every ratio level but `token`. */
  readonly segments: Value | null
  /** Entropy of the distribution a token was drawn from; needed with `entropyCoefficient`. */
  readonly entropy: Value | null
  /** Reference policy's log-probabilities; needed with `kl` and `klBeta`. */
  readonly referenceLogp: Value | null
  /** Mean of source minus reference over the optimizer step, float32 []; needed with `kl.isMeanGiven`. */
  readonly klMean: Value | null
  /** Sampler's log-probabilities, NaN where unknown; needed with `truncation.source` `precalculated`. */
  readonly samplerLogp: Value | null
}

/**
 * Emits the policy loss of one row.
 *
 * @returns `loss` [] and `ratio` [N], the importance ratio before clipping, for reporting
 * @throws {GraphError} if shapes do not fit
 */
export function policyLoss(
  g: GraphBuilder,
  inputs: PolicyLossInputs,
  options: PolicyLossOptions,
): { readonly loss: Value; readonly ratio: Value } {
  return g.scope('policy_loss', () => {
    const { logp, weight, denominator } = inputs
    const fixedLogp = stopGradient(g, logp)
    const old = where(g, isNaNValue(g, inputs.oldLogp), fixedLogp, inputs.oldLogp)
    const fixedLogRatio = logRatio(g, fixedLogp, old)
    const fixedRatio = importanceRatio(g, fixedLogRatio, inputs, options)
    const advantage = shapedAdvantage(g, inputs, options, { fixedLogp, old, fixedLogRatio })

    const perToken = tokenObjective(g, inputs, options, { advantage, old, fixedRatio })
    let coefficient = weight
    if (options.isMaskedOutsideClip) {
      const { low, high } = clipRange(g, options)
      const isInside = and(g, less(g, low, fixedRatio), less(g, fixedRatio, high))
      coefficient = mul(g, coefficient, cast(g, isInside, 'float32'))
    }
    if (options.truncation !== null) {
      coefficient = mul(g, coefficient, truncatedWeight(g, inputs, options.truncation, old, fixedRatio))
    }
    const mean = (values: Value): Value => div(g, reduceSum(g, values, [0], { keepDims: false }), denominator)
    let loss = neg(g, mean(mul(g, perToken, coefficient)))
    if (options.entropyCoefficient > 0) {
      const entropy = mean(mul(g, required(inputs.entropy, 'entropy'), weight))
      loss = sub(g, loss, mul(g, entropy, g.scalar(options.entropyCoefficient)))
    }
    if (options.klBeta > 0) {
      const x = logRatio(g, required(inputs.referenceLogp, 'referenceLogp'), logp)
      const k3 = sub(g, sub(g, exp(g, x), x), g.scalar(1))
      loss = add(g, loss, mul(g, mean(mul(g, k3, weight)), g.scalar(options.klBeta)))
    }
    return { loss, ratio: fixedRatio }
  })
}

/** Whether a loss reads which tokens are of one sequence. */
export function readsSequences({
  ratioLevel,
  formula = null,
}: Pick<PolicyLossOptions, 'ratioLevel' | 'formula'>): boolean {
  return ratioLevel !== 'token' || (formula !== null && hasOperator(formula, 'sequenceMean'))
}

/** What each token adds to the objective before its weight: [N]. */
function tokenObjective(
  g: GraphBuilder,
  inputs: PolicyLossInputs,
  options: PolicyLossOptions,
  { advantage, old, fixedRatio }: { readonly advantage: Value; readonly old: Value; readonly fixedRatio: Value },
): Value {
  const { logp } = inputs
  const ratio = (): Value => importanceRatio(g, logRatio(g, logp, old), inputs, options)
  switch (options.loss) {
    case 'cispo': {
      const { low, high } = clipRange(g, options)
      return mul(g, mul(g, clip(g, fixedRatio, low, high), advantage), logp)
    }
    case 'ppo': {
      const { low, high } = clipRange(g, options)
      const moved = ratio()
      return minimum(g, mul(g, moved, advantage), mul(g, clip(g, moved, low, high), advantage))
    }
    case 'importance_sampling':
      return mul(g, ratio(), advantage)
    case 'dro': {
      const d = logRatio(g, logp, old)
      return sub(g, mul(g, advantage, logp), mul(g, mul(g, d, d), g.scalar(options.droBeta / 2)))
    }
    case 'formula': {
      const sequenceMean = (values: Value): Value => segmentMean(g, values, required(inputs.segments, 'segments'))
      const values = { logp, old, ratio: ratio(), logRatio: logRatio(g, logp, old), advantage }
      if (options.formula == null) throw new Error('policy loss options need the formula of the loss "formula"')
      return neg(g, emitFormula(g, options.formula, { inputs: values, sequenceMean }))
    }
    default:
      return assertNever(options.loss)
  }
}

function clipRange(g: GraphBuilder, { epsilon, epsilonHigh }: PolicyLossOptions) {
  return { low: g.scalar(1 - epsilon), high: g.scalar(1 + epsilonHigh) }
}

function logRatio(g: GraphBuilder, logp: Value, old: Value): Value {
  return clip(g, sub(g, logp, old), g.scalar(-MAX_LOG_RATIO), g.scalar(MAX_LOG_RATIO))
}

/** exp of the log ratio at the wanted level, capped by `maxRatio`. */
function importanceRatio(
  g: GraphBuilder,
  tokenLogRatio: Value,
  inputs: PolicyLossInputs,
  options: PolicyLossOptions,
): Value {
  const ratio = levelRatio(g, tokenLogRatio, inputs, options.ratioLevel)
  return options.maxRatio === null ? ratio : minimum(g, ratio, g.scalar(options.maxRatio))
}

function levelRatio(g: GraphBuilder, tokenLogRatio: Value, inputs: PolicyLossInputs, level: RatioLevel): Value {
  if (level === 'token') return exp(g, tokenLogRatio)
  const sequence = exp(g, segmentMean(g, tokenLogRatio, required(inputs.segments, 'segments')))
  switch (level) {
    case 'sequence':
      return sequence
    case 'average':
      return mul(g, add(g, exp(g, tokenLogRatio), sequence), g.scalar(0.5))
    case 'geometric_average':
      return sqrt(g, mul(g, exp(g, tokenLogRatio), sequence))
    default:
      return assertNever(level)
  }
}

/** The mean over the tokens of each token's own sequence: [N]. Padding belongs to none and gets 0. */
function segmentMean(g: GraphBuilder, values: Value, segments: Value): Value {
  const column = unsqueeze(g, values, [1]) // [N, 1]
  const sums = reduceSum(g, mul(g, segments, column), [0], { keepDims: true }) // [1, G]
  const counts = maximum(g, reduceSum(g, segments, [0], { keepDims: true }), g.scalar(1))
  return reduceSum(g, mul(g, segments, div(g, sums, counts)), [1], { keepDims: false })
}

/** Advantages after `tau` and KL shaping; neither is differentiated. */
function shapedAdvantage(
  g: GraphBuilder,
  inputs: PolicyLossInputs,
  options: PolicyLossOptions,
  fixed: { readonly fixedLogp: Value; readonly old: Value; readonly fixedLogRatio: Value },
): Value {
  const { fixedLogp, old, fixedLogRatio } = fixed
  let advantage = inputs.advantage
  if (options.tau !== null) advantage = sub(g, advantage, mul(g, fixedLogRatio, g.scalar(options.tau)))
  if (options.kl === null) return advantage
  const source = options.kl.source === 'sample' ? old : fixedLogp
  const kl = mul(g, sub(g, source, required(inputs.referenceLogp, 'referenceLogp')), inputs.mask)
  const mean = options.kl.isMeanGiven ? required(inputs.klMean, 'klMean') : maskedMean(g, kl, inputs.mask)
  return add(g, advantage, mul(g, sub(g, mean, kl), g.scalar(options.kl.coefficient)))
}

/** The mean of values that are 0 where the mask is. */
function maskedMean(g: GraphBuilder, values: Value, mask: Value): Value {
  const count = maximum(g, reduceSum(g, mask, [0], { keepDims: false }), g.scalar(1))
  return div(g, reduceSum(g, values, [0], { keepDims: false }), count)
}

function truncatedWeight(
  g: GraphBuilder,
  inputs: PolicyLossInputs,
  truncation: NonNullable<PolicyLossOptions['truncation']>,
  old: Value,
  fixedRatio: Value,
): Value {
  const limit = g.scalar(truncation.limit)
  if (truncation.source === 'ratio') return minimum(g, fixedRatio, limit)
  const sampler = required(inputs.samplerLogp, 'samplerLogp')
  const known = where(g, isNaNValue(g, sampler), old, sampler)
  return minimum(g, exp(g, logRatio(g, old, known)), limit)
}

function required(value: Value | null, name: string): Value {
  if (value === null) throw new Error(`policy loss options need the input "${name}"`)
  return value
}
