/**
 * Ordering constraints: nodes that cannot run until given values exist.
 *
 * ONNX Runtime runs nodes in a topological order of its own, so only a data dependency delays a node. The dependency is
 * made through the integers of a shape (the trigger's element count times zero): no number changes and nothing is copied.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Shape, Value } from '#numerics/graph/graph.js'
import { cast, mul } from '#numerics/graph/ops/elementwise.js'
import type { DType } from '#numerics/tensor/dtype.js'

/** Zeros that are computed once all triggers exist; int64 of shape [length]. */
function zeroSizesAfter(g: GraphBuilder, triggers: readonly Value[], length: number): Value {
  const counts = triggers.map((trigger) => g.node('Size', [trigger])[0] as Value)
  const [first] = counts
  const joined = counts.length === 1 && first !== undefined ? first : (g.node('Max', counts)[0] as Value)
  return mul(g, joined, g.int64s(Array.from({ length }, () => 0)))
}

/** `value` itself, available only once all triggers are: a reshape to its own shape, which shares the buffer. */
export function after(g: GraphBuilder, value: Value, triggers: readonly Value[]): Value {
  if (triggers.length === 0) return value
  const sizes = zeroSizesAfter(g, triggers, value.shape.length) // 0 copies the size of the axis
  return g.node('Reshape', [value, sizes], {}, { outputs: [value] })[0] as Value
}

/**
 * Zeros that are made at run time: constants of known shape would be folded into the session and stay in its memory.
 */
export function zerosAfter(g: GraphBuilder, dtype: DType, shape: Shape, trigger: Value): Value {
  const sizes = g.node('Add', [zeroSizesAfter(g, [trigger], shape.length), g.shapeValue(shape)])[0] as Value
  const zeros = g.node('ConstantOfShape', [sizes], {}, { outputs: [{ dtype: 'float32', shape }] })[0] as Value
  return cast(g, zeros, dtype)
}
