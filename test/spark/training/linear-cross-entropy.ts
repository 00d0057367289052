/**
 * Language-model head and cross-entropy with all gradients, in one pass over chunks of the trained positions.
 *
 * For training all weights. As in `fused-head.ts` the [positions, vocabulary] matrix never exists whole. The loss is fixed,
 * loss = −Σ cₙ·log p(labelₙ), so each position's factor is known before the pass and the head's own gradient can be summed
 * chunk by chunk: with P the probabilities and Y the one-hot labels, d loss / d hidden = c·(P − Y)·W and
 * d loss / d W = (P − Y)ᵀ·(c·hidden). The one-hot part of the latter is one row per position to be added at its label, which is
 * left to the caller: on a host array that is quick, as a graph operator (ScatterElements) it is not.
 * Named after PyTorch's and Liger's "fused linear cross entropy" (arXiv:2410.10989, section 3.2).
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { mul, neg, sub } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { softmax } from '#numerics/graph/ops/normalize.js'
import { expand, reshape, transpose, unsqueeze } from '#numerics/graph/ops/shape.js'
import { type HeadInputs, labelLogp } from '#numerics/nn/fused-head.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** What is trained, and how much each position counts. */
export interface LinearCrossEntropyInputs extends HeadInputs {
  /** cₙ: weight of the position over the loss's denominator; 0 for padding. float32 [Q, C]. */
  readonly coefficients: Value
}

/** N = Q*C trained positions. */
export interface LinearCrossEntropyOutputs {
  /** Log-probability of the label, float32 [N]. */
  readonly logp: Value
  /** d loss / d hidden of each trained position, float32 [N, E]. */
  readonly hiddenGradient: Value
  /** d loss / d weight without its part by labels, float32 [V, E]. */
  readonly weightGradient: Value
  /** The rest of it: the row to be added at each position's label, float32 [N, E]. */
  readonly labelGradient: Value
}

/** Emits the head, the log-probabilities and the gradients of loss = −Σ coefficient·logp. */
export function linearCrossEntropy(g: GraphBuilder, inputs: LinearCrossEntropyInputs): LinearCrossEntropyOutputs {
  const { hidden, weight, labelPositions, labels, coefficients } = inputs
  const [chunks = 'Q'] = labelPositions.shape
  const [vocabulary, width] = weight.shape
  if (typeof vocabulary !== 'number' || typeof width !== 'number') throw new Error('the head needs known sizes')
  return g.scope('head', () => {
    const zeros = expand(g, g.constant(float32Tensor(new Float32Array(1), [1, 1])), [width, vocabulary])
    const outputs = loop(g, {
      count: chunks,
      carried: [zeros],
      body: (body, index, [sum]) => {
        const at = gather(body, labelPositions, index, 0) // [C]
        const label = gather(body, labels, index, 0)
        const factors = gather(body, coefficients, index, 0) // [C]
        const coefficient = unsqueeze(body, factors, [1]) // [C, 1]
        const rows = gather(body, hidden, at, 0) // [C, E]
        const logits = gemm(body, rows, weight, { transB: true }) // [C, V]
        const probabilities = softmax(body, logits, -1)
        const { logp } = labelLogp(body, { logits, probabilities, label })
        const scaled = mul(body, rows, coefficient)
        const expected = gemm(body, probabilities, weight) // [C, E], the expected row of the head
        const slope = mul(body, sub(body, expected, gather(body, weight, label, 0)), coefficient)
        // The sum is kept transposed: turning [C, E] for the product costs far less than turning [C, V]. The factors come
        // after the turn, because ONNX Runtime would fold a Transpose before the product into its slower flag.
        const turned = mul(body, transpose(body, rows, [1, 0]), unsqueeze(body, factors, [0])) // [E, C]
        return {
          carried: [gemm(body, turned, probabilities, { c: sum })],
          scanned: [logp, slope, scaled],
        }
      },
    })
    const [logp, slope, scaled] = outputs.scanned
    const [weightGradient] = outputs.carried
    if (!logp || !slope || !scaled || !weightGradient) throw new Error('the head loop gave too few outputs')
    return {
      logp: reshape(g, logp, [-1]),
      hiddenGradient: reshape(g, slope, [-1, width]),
      weightGradient: transpose(g, weightGradient, [1, 0]),
      labelGradient: neg(g, reshape(g, scaled, [-1, width])),
    }
  })
}
