/**
 * Supervised loss: summed cross-entropy of the trained tokens over a denominator the caller gives.
 *
 * The log-probabilities come from `fused-head.ts`; the denominator is the trainable tokens of the whole batch, so that
 * accumulated micro-batches add up to the batch's own loss.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { div, mul, neg } from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'

/**
 * Emits `-sum(weight * logp) / denominator`.
 *
 * @param logp log-probabilities of the labels, float32 [N]
 * @param weight 1 for a trained token, 0 for padding, float32 [N]
 * @param denominator float32 []
 * @returns the loss, float32 []
 */
export function crossEntropy(g: GraphBuilder, logp: Value, weight: Value, denominator: Value): Value {
  return g.scope('cross_entropy', () =>
    neg(g, div(g, reduceSum(g, mul(g, logp, weight), [0], { keepDims: false }), denominator)),
  )
}
