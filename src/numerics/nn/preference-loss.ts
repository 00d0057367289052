/**
 * Direct preference optimization: a loss on the difference between the log-probabilities of two answers.
 *
 * Source: Rafailov and others (arXiv:2305.18290), equation 7; label smoothing as the conservative form in its authors' note
 * (ericmitchell.ai/cdpo.pdf). Names are those of TRL's `DPOConfig`, and the values are checked against its `DPOTrainer.dpo_loss`
 * in `test/integration/numerics/preference-loss.test.ts`.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import {
  abs,
  add,
  div,
  exp,
  log,
  maximum,
  mul,
  neg,
  sigmoid,
  stopGradient,
  sub,
} from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { unsqueeze } from '#numerics/graph/ops/shape.js'

/** Dimensionless. */
export interface PreferenceLossOptions {
  /** How much a difference in log-probability counts; small values stay close to the reference. */
  readonly beta: number
  /** Probability that a pair is labelled the wrong way round, from 0 to below 0.5. */
  readonly labelSmoothing: number
}

export interface PreferenceLossInputs {
  /** Log-probabilities to differentiate, float32 [N]. */
  readonly logp: Value
  /** Float32 [N, P]: 1 where the token belongs to the chosen answer of the pair, -1 to its rejected one, else 0. */
  readonly pairs: Value
  /** Chosen minus rejected under the reference, float32 [P]; zeros for the reference-free form. */
  readonly referenceMargin: Value
  /** What the sum is divided by: the pairs of the whole optimizer step, float32 []. */
  readonly denominator: Value
}

/**
 * Emits `-sum((1 - s) * logsigmoid(beta * m) + s * logsigmoid(-beta * m)) / denominator` with m the policy's margin minus the
 * reference's.
 *
 * @returns the loss, float32 []
 */
export function preferenceLoss(
  g: GraphBuilder,
  { logp, pairs, referenceMargin, denominator }: PreferenceLossInputs,
  { beta, labelSmoothing }: PreferenceLossOptions,
): Value {
  return g.scope('preference_loss', () => {
    const margin = reduceSum(g, mul(g, pairs, unsqueeze(g, logp, [1])), [0], { keepDims: false })
    const z = mul(g, sub(g, margin, referenceMargin), g.scalar(beta))
    const fixed = stopGradient(g, z)
    const negated = neg(g, fixed)
    // Softplus without overflow. At z = 0, where every job starts, its pieces have no derivative: the slope is given instead.
    const tail = log(g, add(g, exp(g, neg(g, abs(g, fixed))), g.scalar(1)))
    const softplus = (x: Value): Value => add(g, maximum(g, x, g.scalar(0)), tail)
    const mixed = (right: Value, wrong: Value): Value =>
      add(g, mul(g, right, g.scalar(1 - labelSmoothing)), mul(g, wrong, g.scalar(labelSmoothing)))
    const value = mixed(softplus(negated), softplus(fixed))
    const slope = stopGradient(g, mixed(neg(g, sigmoid(g, negated)), sigmoid(g, fixed)))
    const linear = mul(g, slope, z)
    const each = add(g, stopGradient(g, sub(g, value, linear)), linear)
    return div(g, reduceSum(g, each, [0], { keepDims: false }), denominator)
  })
}
