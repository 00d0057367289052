/**
 * Gradients of operators that look up and scatter by index. The gradient of a read is a sum of writes, and the reverse.
 *
 * Sums go through ScatterElements, which runs in one thread and in a fixed order: the result is deterministic. ScatterND with
 * a reduction is not (ONNX Runtime 1.30 adds without a lock).
 */
import { MissingGradientError } from '#base/errors/errors.js'
import { readInt, readText } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import { elementCountDim } from '#numerics/graph/dims.js'
import type { Shape, Value } from '#numerics/graph/graph.js'
import { mul } from '#numerics/graph/ops/elementwise.js'
import { cumSum, gatherElements, gatherND, scatterElements, scatterND } from '#numerics/graph/ops/indexing.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { expand, reshape } from '#numerics/graph/ops/shape.js'
import { type GradientRule, type SingleContext, single, unary, zerosLike } from '../rule.js'

function axisOf({ node, x }: SingleContext, fallback = 0): number {
  const axis = readInt(node.attributes, 'axis', fallback)
  return axis < 0 ? axis + x(0).shape.length : axis
}

/** Adds `dy` [pre.., n, post..] into zeros like `data` at `indices` [n] of `axis`. */
function addRows(
  g: GraphBuilder,
  data: Value,
  { indices, dy, axis }: { readonly indices: Value; readonly dy: Value; readonly axis: number },
): Value {
  const aligned = reshape(
    g,
    indices,
    dy.shape.map((dim, other) => (other === axis ? dim : 1)),
  )
  return scatterElements(g, zerosLike(g, data, dy), expand(g, aligned, dy.shape), dy, { axis, reduction: 'add' })
}

/** The embedding's gradient when data is an embedding. */
export const gatherRule: GradientRule = unary((context) => {
  const { g, dy, x } = context
  const axis = axisOf(context)
  const count = elementCountDim(x(1).shape)
  const shape: Shape = [...x(0).shape.slice(0, axis), count, ...x(0).shape.slice(axis + 1)]
  return addRows(g, x(0), { indices: reshape(g, x(1), [count]), dy: reshape(g, dy, shape), axis })
})

export const gatherElementsRule: GradientRule = unary((context) => {
  const { g, dy, x } = context
  return scatterElements(g, zerosLike(g, x(0), dy), x(1), dy, { axis: axisOf(context), reduction: 'add' })
})

/** Index tuples become places in the flattened leading axes, then as Gather. */
export const gatherNDRule: GradientRule = unary(({ g, dy, x }) => {
  const depth = x(1).shape.at(-1)
  const { shape } = x(0)
  if (typeof depth !== 'number') throw new MissingGradientError('GatherND needs indices with a known last size')
  const strides = shape.slice(0, depth).map((_, axis) => elementCountDim(shape.slice(axis + 1, depth)))
  const count = elementCountDim(x(1).shape.slice(0, -1))
  const places = reshape(g, reduceSum(g, mul(g, x(1), g.shapeValue(strides)), [-1], { keepDims: false }), [count])
  const rest = shape.slice(depth)
  const flat = reshape(g, x(0), [elementCountDim(shape.slice(0, depth)), ...rest])
  return reshape(g, addRows(g, flat, { indices: places, dy: reshape(g, dy, [count, ...rest]), axis: 0 }), shape)
})

export const scatterElementsRule: GradientRule = single((context) => {
  const { g, node, dy, x, wants } = context
  const axis = axisOf(context)
  const isAdding = readText(node.attributes, 'reduction', 'none') === 'add'
  const overwritten = (): Value => scatterElements(g, dy, x(1), zerosLike(g, x(2), dy), { axis })
  return [wants(0) ? (isAdding ? dy : overwritten()) : null, null, wants(2) ? gatherElements(g, dy, x(1), axis) : null]
})

export const scatterNDRule: GradientRule = single(({ g, dy, x, wants }) => [
  wants(0) ? scatterND(g, dy, x(1), zerosLike(g, x(2), dy)) : null,
  null,
  wants(2) ? gatherND(g, dy, x(1)) : null,
])

export const topKRule: GradientRule = unary((context) => {
  const { g, node, dy, x } = context
  const indices = node.outputs[1] as Value
  return scatterElements(g, zerosLike(g, x(0), dy), indices, dy, { axis: axisOf(context, -1) })
})

/** Running sums backwards run the other way. */
export const cumSumRule: GradientRule = unary(({ g, node, dy, x }) => {
  const axis = g.constantOf(x(1))
  if (axis === null) throw new MissingGradientError('CumSum needs a constant axis')
  return cumSum(g, dy, Number(axis.data[0]), {
    isExclusive: readInt(node.attributes, 'exclusive', 0) === 1,
    isReversed: readInt(node.attributes, 'reverse', 0) === 0,
  })
})
