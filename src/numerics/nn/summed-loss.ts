/**
 * Losses that are plain sums over tokens, with absolute bounds of the importance ratio: what a training session computes.
 *
 * With p the trained policy, q the given log-probabilities' and r = p / q:
 *
 *     weighted: -Σ sg(clip(r, low, high)) A log p  +  halfBeta Σ (log p - log q)²
 *     clipped:  -Σ min(r A, clip(r, low, high) A)
 *
 * The bounds and halfBeta are inputs, so one graph of each form serves all losses: cross-entropy is `weighted` between 1 and 1,
 * CISPO (arXiv:2506.13585) `weighted`, DRO (arXiv:2405.19107) `weighted` between 1 and 1 with half its beta, PPO (arXiv:1707.06347)
 * `clipped`, plain importance sampling `clipped` without bounds. Log ratios are clamped to ±30, so that no ratio overflows.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { clip, exp, minimum, mul, neg, stopGradient, sub } from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { MAX_LOG_RATIO } from './policy-loss.js'

/** Whether the ratio is a constant before log p, or differentiated. */
export type SummedLossForm = 'weighted' | 'clipped'

/** Float32 values per trained token [N]; `low`, `high`, `halfBeta` are []. Padding has advantage 0 and old log-probability 0. */
export interface SummedLossInputs {
  /** Log-probabilities to differentiate. */
  readonly logp: Value
  /** log q; 0 where the loss has no ratio. */
  readonly oldLogp: Value
  /** A: the advantage, or the weight of a token. */
  readonly advantage: Value
  /** 1 for a token, 0 for padding. */
  readonly mask: Value
  readonly low: Value
  readonly high: Value
  readonly halfBeta: Value
}

/** Emits the sum over the tokens of one batch, float32 []. */
export function summedLoss(g: GraphBuilder, inputs: SummedLossInputs, form: SummedLossForm): Value {
  return g.scope('summed_loss', () => {
    const { logp, oldLogp, advantage, mask, low, high, halfBeta } = inputs
    const limited = (value: Value): Value =>
      clip(g, sub(g, value, oldLogp), g.scalar(-MAX_LOG_RATIO), g.scalar(MAX_LOG_RATIO))
    const total = (values: Value): Value => reduceSum(g, values, [0], { keepDims: false })
    if (form === 'clipped') {
      const ratio = exp(g, limited(logp))
      const bounded = clip(g, ratio, low, high)
      return neg(g, total(minimum(g, mul(g, ratio, advantage), mul(g, bounded, advantage))))
    }
    const fixed = clip(g, exp(g, limited(stopGradient(g, logp))), low, high)
    const distance = mul(g, sub(g, logp, oldLogp), mask)
    const penalty = mul(g, total(mul(g, distance, distance)), halfBeta)
    return sub(g, penalty, total(mul(g, mul(g, fixed, advantage), logp)))
  })
}
