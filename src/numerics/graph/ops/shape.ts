/**
 * Operators that move, cut, join or relabel elements. Sizes may be symbolic everywhere.
 *
 * Where a symbolic size has to be known at run time it is computed from the axes of the graph's inputs; constants, `0` (copy)
 * and `-1` (whatever is left) are preferred, because they cost no nodes.
 */
import { GraphError } from '#base/errors/errors.js'
import { int, ints } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import {
  addDims,
  canonicalDim,
  canonicalShape,
  divideDims,
  elementCountDim,
  formatShape,
  isSameShape,
  subtractDims,
} from '../dims.js'
import type { Dim, Shape, Value } from '../graph.js'
import { SLICE_END, sliceBound } from '../signatures/shape.js'

/**
 * The same elements under another shape; costs nothing at run time.
 *
 * @param shape sizes, symbolic or not; `0` copies the size of that axis of `x`, one `-1` takes what is left
 * @throws {GraphError} `bad_reshape` if the element counts differ or the `-1` would not be a whole number
 */
export function reshape(g: GraphBuilder, x: Value, shape: readonly Dim[]): Value {
  const target = resolveTarget(x, shape)
  if (isSameShape(target, x.shape)) return x
  return g.node(
    'Reshape',
    [x, reshapeTarget(g, x, target)],
    {},
    { outputs: [{ dtype: x.dtype, shape: target }] },
  )[0] as Value
}

function resolveTarget(x: Value, shape: readonly Dim[]): Shape {
  const fixed = shape.map((dim, axis): Dim => (dim === 0 ? (x.shape[axis] ?? 0) : dim === -1 ? 1 : canonicalDim(dim)))
  const free = shape.indexOf(-1)
  const total = elementCountDim(x.shape)
  const rest = free < 0 ? 1 : divideDims(total, elementCountDim(fixed))
  if (rest !== null && free >= 0) fixed[free] = rest
  if (rest === null || elementCountDim(fixed) !== total || shape.filter((dim) => dim === -1).length > 1) {
    throw new GraphError(
      'bad_reshape',
      `reshape of ${x.name} ${formatShape(x.shape)} to ${formatShape(shape)} does not keep the number of elements`,
    )
  }
  return fixed
}

/** The int64 target: a constant with copies and at most one -1 where that is enough, else computed. */
function reshapeTarget(g: GraphBuilder, x: Value, target: Shape): Value {
  const sizes = target.map((dim, axis) => (typeof dim === 'number' ? dim : dim === x.shape[axis] ? 0 : -1))
  const unknown = sizes.filter((size) => size === -1).length
  if (unknown <= 1) return g.int64s(sizes)
  // All but the last unknown size are computed.
  const last = sizes.lastIndexOf(-1)
  const parts = target.map((dim, axis) =>
    sizes[axis] === -1 && axis !== last ? g.dimValue(dim) : g.int64s([sizes[axis] as number]),
  )
  return concat(g, parts, 0)
}

/** Axes in another order: result axis i is axis order[i] of `x`. Returns `x` itself if nothing moves. */
export function transpose(g: GraphBuilder, x: Value, order: readonly number[]): Value {
  if (order.length === x.shape.length && order.every((axis, index) => axis === index)) return x
  return g.node('Transpose', [x], { perm: ints(order) })[0] as Value
}

/** Joins tensors along an axis; a single tensor is returned as it is. */
export function concat(g: GraphBuilder, values: readonly Value[], axis: number): Value {
  const [first] = values
  if (first !== undefined && values.length === 1) return first
  return g.node('Concat', values, { axis: int(axis) })[0] as Value
}

/** Cuts a tensor into consecutive parts of the given sizes along an axis. */
export function split(g: GraphBuilder, x: Value, sizes: Shape, axis: number): readonly Value[] {
  const place = axis < 0 ? axis + x.shape.length : axis
  const total = sizes.reduce(addDims, 0)
  if (total !== x.shape[place]) {
    throw new GraphError(
      'bad_operand',
      `split of ${x.name} ${formatShape(x.shape)} axis ${axis} into ${formatShape(sizes)}`,
    )
  }
  if (sizes.length === 1) return [x]
  const outputs = sizes.map((size) => ({
    dtype: x.dtype,
    shape: x.shape.map((dim, other) => (other === place ? canonicalDim(size) : dim)),
  }))
  return g.node('Split', [x, g.shapeValue(sizes)], { axis: int(place) }, { outputs })
}

/** The part of an axis that a slice keeps. */
export interface SliceRange {
  readonly axis: number
  /** First index kept; negative counts from the end; default 0. */
  readonly start?: Dim
  /** First index that is not kept; negative counts from the end; default: to the end. */
  readonly end?: Dim
}

/** The elements of `x` inside a range of one axis. */
export function slice(g: GraphBuilder, x: Value, range: SliceRange): Value {
  const { start = 0, end = SLICE_END } = range
  const axis = range.axis < 0 ? range.axis + x.shape.length : range.axis
  const dim = x.shape[axis]
  if (dim === undefined) {
    throw new GraphError('bad_operand', `slice of ${x.name} ${formatShape(x.shape)} has no axis ${range.axis}`)
  }
  const from = typeof start === 'number' ? sliceBound(dim, start) : canonicalDim(start)
  const to = typeof end === 'number' ? sliceBound(dim, end) : canonicalDim(end)
  if (from === 0 && to === dim) return x
  const length = subtractDims(to, from)
  const shape = x.shape.map((size, other) => (other === axis ? length : size))
  const bound = (given: Dim): Value => (typeof given === 'number' ? g.int64s([given]) : g.dimValue(given))
  const inputs = [x, bound(start), bound(end), g.int64s([axis])]
  return g.node('Slice', inputs, {}, { outputs: [{ dtype: x.dtype, shape }] })[0] as Value
}

/** Zeros (or `value`, a scalar) around one axis. */
export function pad(
  g: GraphBuilder,
  x: Value,
  options: { readonly axis: number; readonly before: Dim; readonly after: Dim; readonly value?: Value },
): Value {
  const { axis, before, after, value } = options
  const sizes: Dim[] = Array.from({ length: 2 * x.shape.length }, () => 0)
  sizes[axis] = before
  sizes[axis + x.shape.length] = after
  const shape = x.shape.map((dim, other) => (other === axis ? addDims(addDims(dim, before), after) : dim))
  const inputs = value === undefined ? [x, g.shapeValue(sizes)] : [x, g.shapeValue(sizes), value]
  return g.node('Pad', inputs, {}, { outputs: [{ dtype: x.dtype, shape }] })[0] as Value
}

/** Repeats axes of size 1 (and missing leading axes) up to `shape`. Returns `x` itself if nothing grows. */
export function expand(g: GraphBuilder, x: Value, shape: Shape): Value {
  const target = canonicalShape(shape)
  if (isSameShape(target, x.shape)) return x
  const offset = target.length - x.shape.length
  const sizes = target.map((dim, axis): Dim => (axis >= offset && x.shape[axis - offset] === dim ? 1 : dim))
  if (x.shape.some((dim, axis) => dim !== 1 && dim !== target[axis + offset])) {
    throw new GraphError('bad_operand', `expand of ${x.name} ${formatShape(x.shape)} to ${formatShape(target)}`)
  }
  return g.node('Expand', [x, g.shapeValue(sizes)], {}, { outputs: [{ dtype: x.dtype, shape: target }] })[0] as Value
}

/** New axes of size 1 at the given places of the result. */
export function unsqueeze(g: GraphBuilder, x: Value, axes: readonly number[]): Value {
  return g.node('Unsqueeze', [x, g.int64s(axes)])[0] as Value
}

/** Removes axes of size 1. */
export function squeeze(g: GraphBuilder, x: Value, axes: readonly number[]): Value {
  return g.node('Squeeze', [x, g.int64s(axes)])[0] as Value
}

/** The sizes of `x` at run time, int64 [rank]. */
export function shapeOf(g: GraphBuilder, x: Value): Value {
  return g.node('Shape', [x])[0] as Value
}
