/**
 * The language-model head, log-softmax and their gradient in one pass over chunks of the trained positions.
 *
 * The [positions, vocabulary] matrix never exists whole: a Loop computes one chunk of logits, takes from it the label's
 * log-probability and the entropy, and with the same probabilities the gradient d logp / d hidden = W[label] - p·W.
 * So the head's product is computed once, and the loss on top may be any function of the log-probabilities:
 * d loss / d hidden is (d loss / d logp) times that gradient (`headGradient`). Everything is float32.
 *
 * With a temperature T and a set K of tokens that could be drawn, the distribution is that of what was sampled:
 * q(v) = exp(z_v / T) / sum_{k in K} exp(z_k / T), and d log q / d hidden = (W[label] - sum_{k in K} q(k) W[k]) / T. Hidden states are
 * divided and not logits: [C, E] numbers instead of [C, V]. A soft cap of logits would have to come before; no model here has one.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { HIDDEN } from '#numerics/graph/ops/attention.js'
import { add, log, mul, sub, where } from '#numerics/graph/ops/elementwise.js'
import { gather, gatherElements, scatterElements } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { softmax } from '#numerics/graph/ops/normalize.js'
import { reduceMax, reduceSum } from '#numerics/graph/ops/reduce.js'
import { concat, expand, reshape, squeeze, unsqueeze } from '#numerics/graph/ops/shape.js'
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
  /** 1 / T of each, float32 [Q, C]; absent: 1. */
  readonly inverseTemperature?: Value | undefined
  /** Absent: every token could be drawn everywhere. */
  readonly kept?: KeptTokens | undefined
}

/** Which tokens could be drawn. */
export interface KeptTokens {
  /** Ids of the tokens of K, the label among them, int64 [Q, C, K]; an id may stand there several times. */
  readonly ids: Value
  /** Whether only they could be drawn, bool [Q, C]. */
  readonly isLimited: Value
}

/** Per trained position, flattened to N = Q*C. */
export interface HeadOutputs {
  /** Log-probability of the label, float32 [N]. */
  readonly logp: Value
  /** Entropy of the distribution in nats, float32 [N]. */
  readonly entropy: Value
  /** d logp / d hidden of the position, float32 [N, E]; null unless asked for. */
  readonly slope: Value | null
  /** d entropy / d hidden, float32 [N, E]; null unless asked for. */
  readonly entropySlope: Value | null
}

/** Whose gradients a loss reads: none's, the log-probabilities', or both. */
export type HeadSlopes = null | 'logp' | 'logp_and_entropy'

/**
 * Emits the head.
 *
 * @param options.slopes also compute gradients, at the cost of [N, E] floats each, that of the entropy a product with the head more
 */
export function fusedHead(
  g: GraphBuilder,
  inputs: HeadInputs,
  { slopes }: { readonly slopes: HeadSlopes },
): HeadOutputs {
  const { hidden, weight, labelPositions, labels, inverseTemperature, kept } = inputs
  const [chunks = 'Q'] = labelPositions.shape
  const width = hidden.shape[1] ?? 'E'
  return g.scope('head', () => {
    const outputs = loop(g, {
      count: chunks,
      carried: [],
      body: (body, index) => {
        const at = gather(body, labelPositions, index, 0) // [C]
        const label = gather(body, labels, index, 0)
        const heat = inverseTemperature === undefined ? null : gather(body, inverseTemperature, index, 0) // [C]
        const overT = (x: Value): Value => (heat === null ? x : mul(body, x, unsqueeze(body, heat, [1])))
        const rows = overT(gather(body, hidden, at, 0)) // [C, E]
        const all = gemm(body, rows, weight, { transB: true }) // [C, V]
        const logits = kept === undefined ? all : withinKept(body, all, kept, index)
        const probabilities = softmax(body, logits, -1)
        const { logp, normalizer } = labelLogp(body, { logits, probabilities, label })
        if (slopes === null) {
          const expected = reduceSum(body, mul(body, probabilities, logits), [1], { keepDims: false })
          return { carried: [], scanned: [logp, sub(body, normalizer, expected)] }
        }
        const mean = gemm(body, probabilities, weight) // [C, E], the expected row of the head
        // The expected logit is hidden · (p·W): no further pass over the vocabulary.
        const expected = reduceSum(body, mul(body, rows, mean), [1], { keepDims: false })
        const slope = overT(sub(body, gather(body, weight, label, 0), mean))
        const entropy = sub(body, normalizer, expected)
        if (slopes === 'logp') return { carried: [], scanned: [logp, entropy, slope] }
        return {
          carried: [],
          scanned: [logp, entropy, slope, overT(entropyGradient(body, { logits, probabilities, expected, weight }))],
        }
      },
    })
    const [logp, entropy, ...gradients] = outputs.scanned
    const flat = (slope: Value | undefined): Value | null =>
      slope === undefined ? null : reshape(g, slope, [-1, width])
    if (logp === undefined || entropy === undefined) throw new Error('the head loop gave too few outputs')
    return {
      logp: reshape(g, logp, [-1]),
      entropy: reshape(g, entropy, [-1]),
      slope: flat(gradients[0]),
      entropySlope: flat(gradients[1]),
    }
  })
}

/**
 * Logits of what could not be drawn become so low that their probability is 0; those of positions that are not limited stay.
 *
 * @param logits float32 [C, V]
 * @param index of the chunk
 */
function withinKept(g: GraphBuilder, logits: Value, { ids, isLimited }: KeptTokens, index: Value): Value {
  const chunk = gather(g, ids, index, 0) // [C, K]
  const none = expand(g, g.scalar(HIDDEN), logits.shape)
  // an id that stands there twice is written twice, with the same number
  const limited = scatterElements(g, none, chunk, gatherElements(g, logits, chunk, 1), { axis: 1 })
  return where(g, unsqueeze(g, gather(g, isLimited, index, 0), [1]), limited, logits)
}

/**
 * d H / d hidden = sum_v p_v (E[z] - z_v) W_v with z the logits, both over T: the normalizer cancels, because sum_v p_v is 1.
 *
 * @param options.logits z, float32 [C, V], `expected` E[z] [C]
 * @returns float32 [C, E]
 */
function entropyGradient(
  g: GraphBuilder,
  options: {
    readonly logits: Value
    readonly probabilities: Value
    readonly expected: Value
    readonly weight: Value
  },
): Value {
  const { logits, probabilities, expected, weight } = options
  const below = sub(g, unsqueeze(g, expected, [1]), logits)
  return gemm(g, mul(g, probabilities, below), weight)
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
 * Emits d loss / d hidden for every position from the loss's gradients to the head's outputs at the trained ones.
 *
 * @param outputs of each output that the loss reads: `gradient` d loss / d output, float32 [N], and its `slope` from `fusedHead`,
 *   float32 [N, E]
 * @param rowOfPosition int64 [M], see `placeRows`
 * @returns float32 [M, E]
 */
export function headGradient(
  g: GraphBuilder,
  outputs: readonly { readonly gradient: Value; readonly slope: Value }[],
  rowOfPosition: Value,
): Value {
  return g.scope('head_gradient', () => {
    const [first, ...others] = outputs.map(({ gradient, slope }) => mul(g, slope, unsqueeze(g, gradient, [1])))
    if (first === undefined) throw new Error('no output of the head has a gradient')
    return placeRows(
      g,
      others.reduce((sum, part) => add(g, sum, part), first),
      rowOfPosition,
    )
  })
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
