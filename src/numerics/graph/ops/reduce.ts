/**
 * Reductions along axes. Negative axes count from the end.
 */
import { int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import type { Value } from '../graph.js'

export interface ReduceOptions {
  /** Whether reduced axes stay with size 1; default true. */
  readonly keepDims?: boolean
}

/** Sum over `axes`. */
export function reduceSum(g: GraphBuilder, x: Value, axes: readonly number[], options: ReduceOptions = {}): Value {
  return reduce(g, 'ReduceSum', x, axes, options)
}

/** Mean over `axes`. */
export function reduceMean(g: GraphBuilder, x: Value, axes: readonly number[], options: ReduceOptions = {}): Value {
  return reduce(g, 'ReduceMean', x, axes, options)
}

/** Greatest element over `axes`; equal greatest elements share the gradient. */
export function reduceMax(g: GraphBuilder, x: Value, axes: readonly number[], options: ReduceOptions = {}): Value {
  return reduce(g, 'ReduceMax', x, axes, options)
}

function reduce(
  g: GraphBuilder,
  op: string,
  x: Value,
  axes: readonly number[],
  { keepDims = true }: ReduceOptions,
): Value {
  // Without axes ONNX reduces everything; here an empty list means nothing to do.
  if (axes.length === 0) return x
  return g.node(op, [x, g.int64s(axes)], { keepdims: int(keepDims) })[0] as Value
}
