/**
 * Gradients of operators that move, cut, join or repeat elements: the same move in reverse.
 */
import { MissingGradientError } from '#base/errors/errors.js'
import { readInt, readInts } from '#numerics/graph/attributes.js'
import { subtractDims } from '#numerics/graph/dims.js'
import type { Dim, Value } from '#numerics/graph/graph.js'
import { mul, neg, sub } from '#numerics/graph/ops/elementwise.js'
import { concat, pad, reshape, slice, split, transpose } from '#numerics/graph/ops/shape.js'
import { sliceBound } from '#numerics/graph/signatures/shape.js'
import { type GradientRule, type RuleContext, type SingleContext, single, sumTo, unary, zerosLike } from '../rule.js'

/** Reshape, Squeeze, Unsqueeze: the gradient takes the input's shape. */
export const relabelRule: GradientRule = unary(({ g, dy, x }) => reshape(g, dy, x(0).shape))

export const transposeRule: GradientRule = unary(({ g, node, dy, x }) => {
  const order = readInts(node.attributes, 'perm') ?? x(0).shape.map((_, axis) => x(0).shape.length - 1 - axis)
  const inverse = order.map((_, axis) => order.indexOf(axis))
  return transpose(g, dy, inverse)
})

/** Cuts the gradient apart; only the wanted parts if they are few. */
export const concatRule: GradientRule = single(({ g, node, dy, x, wants }) => {
  const axis = axisOf(node.attributes, dy)
  const sizes = node.inputs.map((_, index) => x(index).shape[axis] as Dim)
  const wanted = sizes.filter((_, index) => wants(index)).length
  if (wanted > 1) {
    const parts = split(g, dy, sizes, axis)
    return parts.map((part, index) => (wants(index) ? part : null))
  }
  let start: Dim = 0
  return sizes.map((size, index) => {
    const from: Dim = start
    const end = subtractDims(from, subtractDims(0, size))
    start = end
    return wants(index) ? slice(g, dy, { axis, start: from, end }) : null
  })
})

/** Joins the gradients of the parts; parts nobody used count as zeros. */
export const splitRule: GradientRule = ({ g, node, gradients }) => {
  const trigger = gradients.find((gradient) => gradient !== null)
  if (!trigger) return node.inputs.map(() => null)
  const axis = axisOf(node.attributes, trigger)
  const parts = node.outputs.map((output, index) => gradients[index] ?? zerosLike(g, output, trigger))
  return [concat(g, parts, axis), ...node.inputs.slice(1).map(() => null)]
}

/** Zeros around the part that was kept. */
export const sliceRule: GradientRule = unary((context) => {
  const { g, node, dy, x } = context
  const [, starts, , axes, steps] = node.inputs
  const axisList = integers(context, axes)
  const startList = integers(context, starts)
  if (axisList === null || (integers(context, steps) ?? []).some((step) => step !== 1)) throw unsupported(context)
  if (startList === null) return padAt(context, axisList, starts)
  return axisList.reduce((gradient, given, index) => {
    const axis = given < 0 ? given + gradient.shape.length : given
    const dim = x(0).shape[axis] as Dim
    const before = sliceBound(dim, startList[index] ?? 0)
    const after = subtractDims(subtractDims(dim, before), dy.shape[axis] as Dim)
    return before === 0 && after === 0 ? gradient : pad(g, gradient, { axis, before, after })
  }, dy)
})

/** A slice whose start is known only at run time: how much to pad is computed there. */
function padAt(context: SingleContext, axes: readonly number[], starts: Value | null | undefined): Value {
  const { g, dy, x } = context
  const [axis] = axes
  if (axis === undefined || axes.length !== 1 || !starts) throw unsupported(context)
  const rank = dy.shape.length
  const spread = (at: number): Value => g.int64s(Array.from({ length: 2 * rank }, (_, index) => (index === at ? 1 : 0)))
  const rest = subtractDims(x(0).shape[axis] as Dim, dy.shape[axis] as Dim)
  const before = mul(g, starts, spread(axis))
  const after = mul(g, sub(g, g.dimValue(rest), starts), spread(axis + rank))
  const pads = sub(g, before, neg(g, after))
  return g.node('Pad', [dy, pads], {}, { outputs: [x(0)] })[0] as Value
}

export const padRule: GradientRule = unary((context) => {
  const { g, dy, x, node } = context
  const pads = integers(context, node.inputs[1])
  if (pads === null) throw unsupported(context)
  return x(0).shape.reduce((gradient, dim, axis) => {
    const start = pads[axis] ?? 0
    return slice(g, gradient, { axis, start, end: subtractDims(dim, -start) })
  }, dy)
})

export const expandRule: GradientRule = unary(({ g, dy, x }) => sumTo(g, dy, x(0).shape))

function axisOf(attributes: SingleContext['node']['attributes'], value: Value): number {
  const axis = readInt(attributes, 'axis', 0)
  return axis < 0 ? axis + value.shape.length : axis
}

function integers({ g }: RuleContext, value: Value | null | undefined): readonly number[] | null {
  const tensor = value ? g.constantOf(value) : null
  return tensor === null ? null : Array.from(tensor.data, Number)
}

function unsupported({ node }: RuleContext): MissingGradientError {
  return new MissingGradientError(`${node.op} "${node.outputs[0]?.name}" has operands its gradient does not cover`, {
    hint: 'slice one axis at a time with step 1, and pad by constants',
  })
}
