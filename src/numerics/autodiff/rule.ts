/**
 * What a gradient rule is, and what rules share: summing broadcast axes, scalars and zeros.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import { elementCountDim, isSameShape } from '#numerics/graph/dims.js'
import type { Node, Shape, Value } from '#numerics/graph/graph.js'
import { cast } from '#numerics/graph/ops/elementwise.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { expand, reshape, squeeze } from '#numerics/graph/ops/shape.js'
import { zerosAfter } from './after.js'

/** Zero tensors of at most this many elements are constants; larger ones are made at run time. */
const CONSTANT_ZEROS = 4096

/** One node of the reverse walk. */
export interface RuleContext {
  readonly g: GraphBuilder
  readonly node: Node
  /** d loss / d output, null where nothing depends on that output. */
  readonly gradients: readonly (Value | null)[]
  /** Whether anyone needs the gradient of this input. Rules must not emit nodes for the others. */
  readonly wants: (input: number) => boolean
}

/** Emits the gradients of a node's inputs, one per input, in the input's dtype and shape; null where not wanted or zero. */
export type GradientRule = (context: RuleContext) => readonly (Value | null)[]

/** A rule's context with the parts that operators of one output use. */
export interface SingleContext extends RuleContext {
  readonly dy: Value
  readonly y: Value
  /** The input at an index, which the operator always has. */
  readonly x: (index: number) => Value
}

/** A rule for an operator with one output. */
export function single(rule: (context: SingleContext) => readonly (Value | null)[]): GradientRule {
  return (context) => {
    const dy = context.gradients[0]
    if (!dy) return context.node.inputs.map(() => null)
    const x = (index: number): Value => context.node.inputs[index] as Value
    return rule({ ...context, dy, y: context.node.outputs[0] as Value, x })
  }
}

/** A rule for an operator with one input that matters (the first). */
export function unary(rule: (context: SingleContext) => Value): GradientRule {
  return single((context) => context.node.inputs.map((_, index) => (index === 0 ? rule(context) : null)))
}

/** Sums `gradient` over the axes along which a tensor of `shape` was broadcast. */
export function sumTo(g: GraphBuilder, gradient: Value, shape: Shape): Value {
  if (isSameShape(gradient.shape, shape)) return gradient
  const extra = gradient.shape.length - shape.length
  const leading = Array.from({ length: extra }, (_, axis) => axis)
  const inner = shape.flatMap((dim, axis) => (dim === 1 && gradient.shape[axis + extra] !== 1 ? [axis + extra] : []))
  if (inner.length === 0) return reduceSum(g, gradient, leading, { keepDims: false })
  if (extra === 0) return reduceSum(g, gradient, inner)
  return reshape(g, reduceSum(g, gradient, [...leading, ...inner], { keepDims: false }), shape)
}

/** A scalar of the dtype of `like`. */
export function scalarLike(g: GraphBuilder, like: Value, number: number): Value {
  return cast(g, g.scalar(number), like.dtype)
}

/** Zeros of the dtype and shape of `like`; large ones are made when `trigger` exists. */
export function zerosLike(g: GraphBuilder, like: Value, trigger: Value): Value {
  const count = elementCountDim(like.shape)
  if (typeof count === 'number' && count > CONSTANT_ZEROS) return zerosAfter(g, like.dtype, like.shape, trigger)
  return expand(g, scalarLike(g, like, 0), like.shape)
}

/** The number of elements along `axes`, as a scalar of the dtype of `x`. */
export function countOf(g: GraphBuilder, x: Value, axes: readonly number[]): Value {
  const count = elementCountDim(axes.map((axis) => x.shape[axis < 0 ? axis + x.shape.length : axis] ?? 1))
  if (typeof count === 'number') return scalarLike(g, x, count)
  return cast(g, squeeze(g, g.dimValue(count), [0]), x.dtype)
}
