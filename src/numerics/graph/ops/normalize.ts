/**
 * Softmax, RMS norms and rotary embedding: operators that ONNX Runtime has fused kernels for.
 *
 * Source: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
import { float, int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import type { Value } from '../graph.js'

/** x · sigmoid(alpha · x); alpha 1 (the default here) is SiLU. */
export function quickGelu(g: GraphBuilder, x: Value, alpha = 1): Value {
  return g.node('QuickGelu', [x], { alpha: float(alpha) })[0] as Value
}

/** Softmax along an axis; default the last. */
export function softmax(g: GraphBuilder, x: Value, axis = -1): Value {
  return g.node('Softmax', [x], { axis: int(axis) })[0] as Value
}

/** Logarithm of softmax along an axis; default the last. */
export function logSoftmax(g: GraphBuilder, x: Value, axis = -1): Value {
  return g.node('LogSoftmax', [x], { axis: int(axis) })[0] as Value
}

/**
 * x / sqrt(mean(x²) + epsilon) · weight along the last axis.
 *
 * @param weight [E]
 * @param epsilon default 1e-5
 */
export function rmsNorm(g: GraphBuilder, x: Value, weight: Value, epsilon = 1e-5): Value {
  return g.node('SimplifiedLayerNormalization', [x, weight], { axis: int(-1), epsilon: float(epsilon) })[0] as Value
}

/**
 * The residual connection and the norm after it as one kernel.
 *
 * @returns `sum` = x + skip (+ bias), and `normed` = rmsNorm(sum)
 */
export function skipRmsNorm(
  g: GraphBuilder,
  x: Value,
  skip: Value,
  options: { readonly weight: Value; readonly epsilon?: number; readonly bias?: Value | undefined },
): { readonly normed: Value; readonly sum: Value } {
  const { weight, epsilon = 1e-5, bias } = options
  const inputs = bias === undefined ? [x, skip, weight] : [x, skip, weight, bias]
  const outputs = g.node('SkipSimplifiedLayerNormalization', inputs, { epsilon: float(epsilon) })
  return { normed: outputs[0] as Value, sum: outputs[3] as Value }
}

/**
 * Rotates the halves of each head by the angles of its position (GPT-NeoX order, as Hugging Face's Llama).
 *
 * @param x [B, H, T, D], or [B, T, H*D] with `headCount`
 * @param positions int64 [B, T], rows of the tables
 * @param cos, sin [positions, D/2]
 */
export function rotaryEmbedding(
  g: GraphBuilder,
  x: Value,
  positions: Value,
  cos: Value,
  sin: Value,
  options: { readonly headCount?: number } = {},
): Value {
  // The kernel needs the head count only where it cannot read it from the shape.
  const attributes = options.headCount === undefined ? {} : { num_heads: int(options.headCount) }
  return g.node('RotaryEmbedding', [x, positions, cos, sin], attributes)[0] as Value
}
