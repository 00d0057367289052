/**
 * Losses on the log-probabilities of two answers to one prompt, of which one is preferred; `kto` on one that is good or bad.
 *
 * | loss | of a pair | source |
 * | --- | --- | --- |
 * | `sigmoid` | -log sigmoid(z), z = beta * m | DPO, arXiv:2305.18290, equation 7; label smoothing: ericmitchell.ai/cdpo.pdf |
 * | `hinge` | max(0, 1 - z) | SLiC, arXiv:2305.10425, with the reference as in arXiv:2309.06657 |
 * | `ipo` | (m - 1 / (2 beta))^2, answers averaged over their tokens | IPO, arXiv:2310.12036, equation 17 |
 * | `orpo` | -beta * log sigmoid(log odds(chosen) - log odds(rejected)), averaged | ORPO, arXiv:2403.07691, equation 6 |
 * | `simpo` | -log sigmoid(beta * m - gamma), averaged, no reference | SimPO, arXiv:2405.14734, equation 6 |
 * | `kto` | w * sigmoid(-beta * s * (logp - logp_ref - z0)), s = 1 or -1 by the label | KTO, arXiv:2402.01306, equation 8 |
 *
 * m is the policy's margin, chosen minus rejected, minus the reference's. An SFT term (arXiv:2404.19733, ORPO's first term) is
 * cross-entropy on the chosen answers, a mean over the tokens of the whole optimizer step.
 *
 * Names are those of TRL; its losses are what `test/integration/numerics/preference-loss.test.ts` compares with. Difference: the
 * odds of an answer are those of a mean log-probability of at most -1e-6, because at 0 they are infinite and so is their slope.
 */
import type { Formula } from '#base/formula/formula.js'
import { assertNever } from '#base/util/assert-never.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import {
  abs,
  add,
  div,
  exp,
  log,
  maximum,
  minimum,
  mul,
  neg,
  sigmoid,
  stopGradient,
  sub,
  tanh,
} from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { unsqueeze } from '#numerics/graph/ops/shape.js'
import { emitFormula } from './formula.js'

/** The loss of a pair. */
export type PreferenceLossName = 'sigmoid' | 'hinge' | 'ipo' | 'orpo' | 'simpo' | 'kto' | 'formula'

/** Dimensionless. */
export interface PreferenceLossOptions {
  readonly loss: PreferenceLossName
  /** The loss of a pair, of `PREFERENCE_INPUTS`; read by `formula`. */
  readonly formula?: Formula | null
  /** How much a difference in log-probability counts; small values stay close to the reference. */
  readonly beta: number
  /** Probability that a pair is labelled the wrong way round, from 0 to below 0.5; read by `sigmoid` and `simpo`. */
  readonly labelSmoothing: number
  /** Reward margin of `simpo`. */
  readonly gamma: number
  /** Weights of good and of bad answers in `kto`. */
  readonly desirableWeight: number
  readonly undesirableWeight: number
  /** Weight of cross-entropy on the chosen answers; 0 for none. */
  readonly sftWeight: number
}

/** Highest mean log-probability whose odds are taken. */
export const MAX_MEAN_LOGP = -1e-6

/** Whether an answer's log-probability is the mean over its tokens, not the sum. */
export function isAveraged(loss: PreferenceLossName): boolean {
  return loss === 'ipo' || loss === 'orpo' || loss === 'simpo'
}

export interface PreferenceLossInputs {
  /** Log-probabilities to differentiate, float32 [N]. */
  readonly logp: Value
  /**
   * Float32 [N, P]: positive where the token belongs to the chosen answer of the pair, negative for its rejected one, else 0. By size
   * 1, or 1 / tokens of the answer where it is averaged. Of `kto` a column is one answer, positive where it is good.
   */
  readonly pairs: Value
  /**
   * Chosen minus rejected under the reference, float32 [P]; zeros for the reference-free form, null for `orpo` and `formula`. Of
   * `kto` s * (logp_ref + z0).
   */
  readonly referenceMargin: Value | null
  /** Both answers under the reference, float32 [P] each; `formula` needs them. */
  readonly reference?: { readonly chosen: Value; readonly rejected: Value } | null
  /** Weight of each answer, float32 [P]; `kto` needs it. */
  readonly answerWeights: Value | null
  /** What the sum over pairs is divided by: the pairs of the whole optimizer step, float32 []. */
  readonly denominator: Value
  /** Of a token of a chosen answer 1 / the chosen tokens of the optimizer step, else 0, float32 [N]; needed with an SFT weight. */
  readonly chosenShare: Value | null
}

/**
 * Emits the sum over pairs divided by the denominator, and the SFT term.
 *
 * @returns the loss, float32 []
 */
export function preferenceLoss(g: GraphBuilder, inputs: PreferenceLossInputs, options: PreferenceLossOptions): Value {
  return g.scope('preference_loss', () => {
    const each = pairLosses(g, inputs, options)
    const preference = div(g, reduceSum(g, each, [0], { keepDims: false }), inputs.denominator)
    if (options.sftWeight === 0) return preference
    const share = required(inputs.chosenShare, 'chosenShare')
    const gain = reduceSum(g, mul(g, inputs.logp, share), [0], { keepDims: false })
    return sub(g, preference, mul(g, gain, g.scalar(options.sftWeight)))
  })
}

/** The loss of each pair: [P]. */
function pairLosses(
  g: GraphBuilder,
  { logp, pairs, referenceMargin, answerWeights, reference = null }: PreferenceLossInputs,
  { loss, beta, labelSmoothing, gamma, formula = null }: PreferenceLossOptions,
): Value {
  const sumOf = (shares: Value): Value =>
    reduceSum(g, mul(g, shares, unsqueeze(g, logp, [1])), [0], { keepDims: false })
  const margin = (): Value => sub(g, sumOf(pairs), required(referenceMargin, 'referenceMargin'))
  switch (loss) {
    case 'sigmoid':
      return negativeLogSigmoid(g, mul(g, margin(), g.scalar(beta)), labelSmoothing)
    case 'hinge':
      return maximum(g, sub(g, g.scalar(1), mul(g, margin(), g.scalar(beta))), g.scalar(0))
    case 'ipo': {
      const distance = sub(g, margin(), g.scalar(1 / (2 * beta)))
      return mul(g, distance, distance)
    }
    case 'orpo': {
      const chosen = logOdds(g, sumOf(maximum(g, pairs, g.scalar(0))))
      const rejected = logOdds(g, sumOf(maximum(g, neg(g, pairs), g.scalar(0))))
      return mul(g, negativeLogSigmoid(g, sub(g, chosen, rejected), 0), g.scalar(beta))
    }
    case 'simpo':
      return negativeLogSigmoid(g, sub(g, mul(g, margin(), g.scalar(beta)), g.scalar(gamma)), labelSmoothing)
    case 'kto':
      return mul(g, required(answerWeights, 'answerWeights'), sigmoid(g, mul(g, margin(), g.scalar(-beta))))
    case 'formula': {
      if (reference === null || formula === null) throw new Error('a formula needs both answers under the reference')
      const chosen = sub(g, sumOf(maximum(g, pairs, g.scalar(0))), reference.chosen)
      const rejected = sub(g, sumOf(maximum(g, neg(g, pairs), g.scalar(0))), reference.rejected)
      const inputs = { chosen, rejected, chosenReference: reference.chosen, rejectedReference: reference.rejected }
      return emitFormula(g, formula, { inputs })
    }
    default:
      return assertNever(loss)
  }
}

/** log(p / (1 - p)) of log p. `1 - p` is `tanh(-x / 2) * (1 + p)`: it keeps its digits where p is near 1. */
function logOdds(g: GraphBuilder, logp: Value): Value {
  const x = minimum(g, logp, g.scalar(MAX_MEAN_LOGP))
  const complement = add(g, log(g, tanh(g, mul(g, x, g.scalar(-0.5)))), log(g, add(g, exp(g, x), g.scalar(1))))
  return sub(g, x, complement)
}

/** `-(1 - s) * log sigmoid(z) - s * log sigmoid(-z)`. */
function negativeLogSigmoid(g: GraphBuilder, z: Value, smoothing: number): Value {
  const fixed = stopGradient(g, z)
  const negated = neg(g, fixed)
  // Softplus without overflow. At z = 0, where every job starts, its pieces have no derivative: the slope is given instead.
  const tail = log(g, add(g, exp(g, neg(g, abs(g, fixed))), g.scalar(1)))
  const softplus = (x: Value): Value => add(g, maximum(g, x, g.scalar(0)), tail)
  const mixed = (right: Value, wrong: Value): Value =>
    add(g, mul(g, right, g.scalar(1 - smoothing)), mul(g, wrong, g.scalar(smoothing)))
  const value = mixed(softplus(negated), softplus(fixed))
  const slope = stopGradient(g, mixed(neg(g, sigmoid(g, negated)), sigmoid(g, fixed)))
  const linear = mul(g, slope, z)
  return add(g, stopGradient(g, sub(g, value, linear)), linear)
}

function required(value: Value | null, name: string): Value {
  if (value === null) throw new Error(`preference loss options need the input "${name}"`)
  return value
}
