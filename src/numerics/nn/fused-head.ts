/**
 * The language-model head, log-softmax and their gradient in one pass over chunks of the trained positions.
 *
 * The [positions, vocabulary] matrix never exists whole: a Loop computes one chunk of logits, takes from it the label's
 * log-probability and the entropy, and with the same probabilities the gradient d logp / d hidden = W[label] - p·W.
 * So the head's product is computed once, and the loss on top may be any function of the log-probabilities:
 * d loss / d hidden is (d loss / d logp) times that gradient (`headGradient`). Everything is float32.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { log, mul, sub } from '#numerics/graph/ops/elementwise.js'
import { gather, gatherElements } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { softmax } from '#numerics/graph/ops/normalize.js'
import { reduceMax, reduceSum } from '#numerics/graph/ops/reduce.js'
import { concat, reshape, squeeze, unsqueeze } from '#numerics/graph/ops/shape.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** Which positions are trained, and on what. Chunks are the outer axis, so that the Loop takes one at a time. */
export interface HeadInputs {
  /** Normed hidden states, float32 [M, E]. */
  readonly hidden: Value
  /** Head weights, float32 [V, E]. */
  readonly weight: Value
  /** Rows of `hidden`, int64 [Q, C]: Q chunks of C positions. */
  readonly labelPositions: Value
  /** Token to predict at each of them, int64 [Q, C]. */
  readonly labels: Value
}

/** Per trained position, flattened to N = Q*C. */
export interface HeadOutputs {
  /** Log-probability of the label, float32 [N]. */
  readonly logp: Value
  /** Entropy of the distribution in nats, float32 [N]. */
  readonly entropy: Value
  /** d logp / d hidden of the position, float32 [N, E]; null unless asked for. */
  readonly slope: Value | null
}

/**
 * Emits the head.
 *
 * @param options.hasSlope also compute the gradient, at the cost of keeping [N, E] floats
 */
export function fusedHead(g: GraphBuilder, inputs: HeadInputs, options: { readonly hasSlope: boolean }): HeadOutputs {
  const { hidden, weight, labelPositions, labels } = inputs
  const [chunks = 'Q'] = labelPositions.shape
  const width = hidden.shape[1] ?? 'E'
  return g.scope('head', () => {
    const outputs = loop(g, {
      count: chunks,
      carried: [],
      body: (body, index) => {
        const at = gather(body, labelPositions, index, 0) // [C]
        const label = gather(body, labels, index, 0)
        const rows = gather(body, hidden, at, 0) // [C, E]
        const logits = gemm(body, rows, weight, { transB: true }) // [C, V]
        const probabilities = softmax(body, logits, -1)
        const { logp, normalizer } = labelLogp(body, { logits, probabilities, label })
        if (!options.hasSlope) {
          const expected = reduceSum(body, mul(body, probabilities, logits), [1], { keepDims: false })
          return { carried: [], scanned: [logp, sub(body, normalizer, expected)] }
        }
        const mean = gemm(body, probabilities, weight) // [C, E], the expected row of the head
        // The expected logit is hidden · (p·W): no further pass over the vocabulary.
        const expected = reduceSum(body, mul(body, rows, mean), [1], { keepDims: false })
        const slope = sub(body, gather(body, weight, label, 0), mean)
        return { carried: [], scanned: [logp, sub(body, normalizer, expected), slope] }
      },
    })
    const [logp, entropy, slope] = outputs.scanned
    if (logp === undefined || entropy === undefined) throw new Error('the head loop gave too few outputs')
    return {
      logp: reshape(g, logp, [-1]),
      entropy: reshape(g, entropy, [-1]),
      slope: slope === undefined ? null : reshape(g, slope, [-1, width]),
    }
  })
}

/**
 * Emits the labels' log-probabilities and the log-sum-exp of the logits.
 *
 * @param options.logits float32 [C, V], `probabilities` their softmax, `label` int64 [C]
 * @returns both float32 [C]
 */
export function labelLogp(
  g: GraphBuilder,
  options: { readonly logits: Value; readonly probabilities: Value; readonly label: Value },
): { readonly logp: Value; readonly normalizer: Value } {
  const { logits, probabilities, label } = options
  // The largest probability is 1 / sum(exp(logits - max)): the normalizer without another pass over exp.
  const normalizer = sub(
    g,
    reduceMax(g, logits, [1], { keepDims: false }),
    log(g, reduceMax(g, probabilities, [1], { keepDims: false })),
  )
  const labelLogit = squeeze(g, gatherElements(g, logits, unsqueeze(g, label, [1]), 1), [1])
  return { logp: sub(g, labelLogit, normalizer), normalizer }
}

/**
 * Emits d loss / d hidden for every position from d loss / d logp of the trained ones.
 *
 * @param options.logpGradient float32 [N]
 * @param options.slope float32 [N, E], from `fusedHead`
 * @param options.rowOfPosition int64 [M], see `placeRows`
 * @returns float32 [M, E]
 */
export function headGradient(
  g: GraphBuilder,
  options: { readonly logpGradient: Value; readonly slope: Value; readonly rowOfPosition: Value },
): Value {
  const { logpGradient, slope, rowOfPosition } = options
  return g.scope('head_gradient', () => placeRows(g, mul(g, slope, unsqueeze(g, logpGradient, [1])), rowOfPosition))
}

/**
 * Emits the gradient of all positions from that of the trained ones; others get zeros.
 *
 * @param rows float32 [N, E]
 * @param rowOfPosition int64 [M]: the trained row of each position, N where a position is not trained
 * @returns float32 [M, E]; a gather, so that the result does not depend on the order of a scatter
 */
export function placeRows(g: GraphBuilder, rows: Value, rowOfPosition: Value): Value {
  const width = rows.shape[1]
  if (typeof width !== 'number') throw new Error('the hidden size must be known')
  const zero = g.constant(float32Tensor(new Float32Array(width), [1, width]))
  return gather(g, concat(g, [rows, zero], 0), rowOfPosition, 0)
}
