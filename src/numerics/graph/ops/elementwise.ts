/**
 * Element-wise operators with broadcasting: sizes must be equal or literally 1. Comparisons return bool.
 *
 * Each function appends one ONNX node and returns its result; all throw GraphError `bad_operand` on inputs that do not fit.
 */
import { ONNX_DATA_TYPES } from '#numerics/onnx/data-types.js'
import type { DType } from '#numerics/tensor/dtype.js'
import { type Attributes, int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import type { Value } from '../graph.js'

/** a + b. */
export function add(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Add', [a, b])
}

/** a − b. */
export function sub(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Sub', [a, b])
}

/** a · b, element by element. */
export function mul(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Mul', [a, b])
}

/** a / b; integers truncate towards zero. */
export function div(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Div', [a, b])
}

/** a to the power b; the result has the dtype of a. */
export function pow(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Pow', [a, b])
}

/** The smaller of each pair. Where both are equal, each gets half the gradient. */
export function minimum(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Min', [a, b])
}

/** The greater of each pair. Where both are equal, each gets half the gradient. */
export function maximum(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Max', [a, b])
}

/** −x. */
export function neg(g: GraphBuilder, x: Value): Value {
  return only(g, 'Neg', [x])
}

/** e to the x. */
export function exp(g: GraphBuilder, x: Value): Value {
  return only(g, 'Exp', [x])
}

/** Natural logarithm. */
export function log(g: GraphBuilder, x: Value): Value {
  return only(g, 'Log', [x])
}

/** Square root. */
export function sqrt(g: GraphBuilder, x: Value): Value {
  return only(g, 'Sqrt', [x])
}

/** 1 / x. */
export function reciprocal(g: GraphBuilder, x: Value): Value {
  return only(g, 'Reciprocal', [x])
}

/** 1 / (1 + e^−x). */
export function sigmoid(g: GraphBuilder, x: Value): Value {
  return only(g, 'Sigmoid', [x])
}

/** Hyperbolic tangent. */
export function tanh(g: GraphBuilder, x: Value): Value {
  return only(g, 'Tanh', [x])
}

/** |x|. */
export function abs(g: GraphBuilder, x: Value): Value {
  return only(g, 'Abs', [x])
}

/** −1, 0 or 1. Not differentiable. */
export function sign(g: GraphBuilder, x: Value): Value {
  return only(g, 'Sign', [x])
}

/** Sine of radians. */
export function sin(g: GraphBuilder, x: Value): Value {
  return only(g, 'Sin', [x])
}

/** Cosine of radians. */
export function cos(g: GraphBuilder, x: Value): Value {
  return only(g, 'Cos', [x])
}

/** x limited to the range between two scalars of its dtype; null leaves a side open. The gradient is 0 outside and 1 on the bounds. */
export function clip(g: GraphBuilder, x: Value, low: Value | null, high: Value | null): Value {
  return only(g, 'Clip', [x, low, high])
}

/** `a` where the condition holds, else `b`. */
export function where(g: GraphBuilder, condition: Value, a: Value, b: Value): Value {
  return only(g, 'Where', [condition, a, b])
}

/** Converts to another dtype; float to integer truncates. Returns `x` itself if it has the dtype already. */
export function cast(g: GraphBuilder, x: Value, dtype: DType): Value {
  return x.dtype === dtype ? x : only(g, 'Cast', [x], { to: int(ONNX_DATA_TYPES[dtype]) })
}

/** a = b. */
export function equal(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Equal', [a, b])
}

/** a < b. */
export function less(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Less', [a, b])
}

/** a > b. */
export function greater(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Greater', [a, b])
}

/** a ≤ b. */
export function lessOrEqual(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'LessOrEqual', [a, b])
}

/** a ≥ b. */
export function greaterOrEqual(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'GreaterOrEqual', [a, b])
}

/** Logical negation of a bool. */
export function not(g: GraphBuilder, x: Value): Value {
  return only(g, 'Not', [x])
}

/** Logical and. */
export function and(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'And', [a, b])
}

/** Logical or. */
export function or(g: GraphBuilder, a: Value, b: Value): Value {
  return only(g, 'Or', [a, b])
}

/** Whether a float is NaN. */
// biome-ignore lint/suspicious/noShadowRestrictedNames: the operator's own name; importers may rename it
export function isNaN(g: GraphBuilder, x: Value): Value {
  return only(g, 'IsNaN', [x])
}

/** The value itself; a node that optimization removes. */
export function identity(g: GraphBuilder, x: Value): Value {
  return only(g, 'Identity', [x])
}

/** The value itself, through which no gradient flows. Written to the model as Identity. */
export function stopGradient(g: GraphBuilder, x: Value): Value {
  return only(g, 'StopGradient', [x])
}

function only(g: GraphBuilder, op: string, inputs: readonly (Value | null)[], attributes: Attributes = {}): Value {
  return g.node(op, inputs, attributes)[0] as Value
}
