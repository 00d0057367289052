/**
 * Activations of gated MLPs, from operators that autodiff knows.
 *
 * GELU in its tanh form is x · sigmoid(2 √(2/π) (x + 0.044715 x³)), because (1 + tanh z) / 2 = sigmoid(2z).
 * Sources: SiLU and GELU (arXiv:1606.08415); `gelu_pytorch_tanh` of transformers.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { add, mul, sigmoid } from '#numerics/graph/ops/elementwise.js'
import { quickGelu } from '#numerics/graph/ops/normalize.js'

export type Activation = 'silu' | 'gelu_tanh'

const SLOPE = 2 * Math.sqrt(2 / Math.PI)
const CUBIC = 0.044715

/** The activation of each element. */
export function activate(g: GraphBuilder, x: Value, activation: Activation): Value {
  // QuickGelu with alpha 1 is x * sigmoid(x), SiLU.
  if (activation === 'silu') return quickGelu(g, x, 1)
  const inner = add(g, mul(g, mul(g, x, x), g.scalar(SLOPE * CUBIC)), g.scalar(SLOPE))
  return mul(g, x, sigmoid(g, mul(g, x, inner)))
}
