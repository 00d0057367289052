/**
 * Looking up, scattering, sorting and counting by index. (Named after indexing: this is not a barrel.)
 */
import { float32Tensor } from '#numerics/tensor/host-tensor.js'
import { int, text } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import type { Dim, Value } from '../graph.js'

/** How scattered elements combine with what is there: `none` replaces (duplicates are undefined), `add` sums. */
export type ScatterReduction = 'none' | 'add'

/** Slices of `data` along `axis`: the axis is replaced by the shape of `indices`. Negative indices count from the end. */
export function gather(g: GraphBuilder, data: Value, indices: Value, axis = 0): Value {
  return g.node('Gather', [data, indices], { axis: int(axis) })[0] as Value
}

/** result[i][j] = data[indices[i][j]][j] for axis 0, and so on: one element per index. */
export function gatherElements(g: GraphBuilder, data: Value, indices: Value, axis: number): Value {
  return g.node('GatherElements', [data, indices], { axis: int(axis) })[0] as Value
}

/** Slices addressed by the last axis of `indices` (int64): [.., k] into the first k axes of `data`. */
export function gatherND(g: GraphBuilder, data: Value, indices: Value): Value {
  return g.node('GatherND', [data, indices])[0] as Value
}

/** `data` with `updates` written where `gatherElements` with the same indices would read. */
export function scatterElements(
  g: GraphBuilder,
  data: Value,
  indices: Value,
  updates: Value,
  options: { readonly axis: number; readonly reduction?: ScatterReduction },
): Value {
  const attributes = { axis: int(options.axis), reduction: text(options.reduction ?? 'none') }
  return g.node('ScatterElements', [data, indices, updates], attributes)[0] as Value
}

/**
 * `data` with `updates` written where `gatherND` with the same indices would read; no two indices may be equal.
 *
 * There is no summing variant: ONNX Runtime 1.30 adds from several threads without a lock and loses updates. Sum with
 * `scatterElements`.
 */
export function scatterND(g: GraphBuilder, data: Value, indices: Value, updates: Value): Value {
  return g.node('ScatterND', [data, indices, updates])[0] as Value
}

/** float32 rows of `depth` with a 1 at each index, 0 elsewhere; a new last axis. Not differentiable. */
export function oneHot(g: GraphBuilder, indices: Value, depth: number): Value {
  const offOn = g.constant(float32Tensor(Float32Array.of(0, 1), [2]))
  return g.node('OneHot', [indices, g.int64s([depth]), offOn], { axis: int(-1) })[0] as Value
}

/** The `count` largest elements along an axis (default the last), in descending order, and their int64 indices. */
export function topK(
  g: GraphBuilder,
  x: Value,
  count: Dim,
  axis = -1,
): { readonly values: Value; readonly indices: Value } {
  const shape = x.shape.map((dim, at) => (at === (axis < 0 ? axis + x.shape.length : axis) ? count : dim))
  const outputs = [
    { dtype: x.dtype, shape },
    { dtype: 'int64' as const, shape },
  ]
  const [values, indices] = g.node('TopK', [x, g.shapeValue([count])], { axis: int(axis) }, { outputs })
  return { values: values as Value, indices: indices as Value }
}

/** int64 index of the greatest element along `axis`, the first of equals. Not differentiable. */
export function argMax(g: GraphBuilder, x: Value, axis: number, options: { readonly keepDims?: boolean } = {}): Value {
  return g.node('ArgMax', [x], { axis: int(axis), keepdims: int(options.keepDims ?? true) })[0] as Value
}

/** Running sum along an axis; `isExclusive` leaves the element itself out, `isReversed` sums from the end. */
export function cumSum(
  g: GraphBuilder,
  x: Value,
  axis: number,
  options: { readonly isExclusive?: boolean; readonly isReversed?: boolean } = {},
): Value {
  const attributes = { exclusive: int(options.isExclusive ?? false), reverse: int(options.isReversed ?? false) }
  return g.node('CumSum', [x, g.int64Scalar(axis)], attributes)[0] as Value
}
