/**
 * Gradients of reductions, softmax, RMS norms and rotary embedding.
 */
import { readInt } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { add, cast, div, equal, exp, mul, neg, sub } from '#numerics/graph/ops/elementwise.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { expand, reshape } from '#numerics/graph/ops/shape.js'
import { countOf, type GradientRule, type SingleContext, single, sumTo, unary } from '../rule.js'

/** Axes of a reduction, counted from the front. They are constants: the builder made them. */
function reducedAxes({ g, node, x }: SingleContext): readonly number[] {
  const axes = node.inputs[1]
  const tensor = axes ? g.constantOf(axes) : null
  return tensor === null
    ? []
    : Array.from(tensor.data, Number).map((axis) => (axis < 0 ? axis + x(0).shape.length : axis))
}

/** A reduced value with its reduced axes back as size 1. */
function kept({ g, x }: SingleContext, value: Value, axes: readonly number[]): Value {
  return reshape(
    g,
    value,
    x(0).shape.map((dim, axis) => (axes.includes(axis) ? 1 : dim)),
  )
}

export const reduceSumRule: GradientRule = unary((context) => {
  const { g, dy, x } = context
  return expand(g, kept(context, dy, reducedAxes(context)), x(0).shape)
})

export const reduceMeanRule: GradientRule = unary((context) => {
  const { g, dy, x } = context
  const axes = reducedAxes(context)
  return expand(g, div(g, kept(context, dy, axes), countOf(g, x(0), axes)), x(0).shape)
})

/** Equal largest elements share the gradient. */
export const reduceMaxRule: GradientRule = unary((context) => {
  const { g, dy, y, x } = context
  const axes = reducedAxes(context)
  const isGreatest = cast(g, equal(g, x(0), kept(context, y, axes)), dy.dtype)
  return mul(g, isGreatest, div(g, kept(context, dy, axes), reduceSum(g, isGreatest, axes)))
})

/** dx = y·dy − y·sum(y·dy). */
export const softmaxRule: GradientRule = unary(({ g, node, dy, y }) => {
  const product = mul(g, dy, y)
  return sub(g, product, mul(g, y, reduceSum(g, product, [readInt(node.attributes, 'axis', -1)])))
})

/** dx = dy − softmax·sum(dy). */
export const logSoftmaxRule: GradientRule = unary(({ g, node, dy, y }) =>
  sub(g, dy, mul(g, exp(g, y), reduceSum(g, dy, [readInt(node.attributes, 'axis', -1)]))),
)

/**
 * With r = 1/rms and p = x·dy of each row: dw = Σ r·p over the rows, dx = r·w·dy − x·r³·mean(w·p).
 *
 * Both sums are products of the matrix p with a vector, which read it once and write next to nothing: these rules are bound by
 * memory.
 */
function rmsNormGradients(
  g: GraphBuilder,
  norm: { readonly x: Value; readonly weight: Value; readonly scale: Value; readonly dy: Value },
  wants: { readonly x: boolean; readonly weight: boolean },
): { readonly dx: Value | null; readonly dWeight: Value | null } {
  const { x, weight, dy } = norm
  const width = weight.shape[0] ?? 1
  const r = cast(g, norm.scale, x.dtype)
  const products = reshape(g, mul(g, x, dy), [-1, width])
  const dWeight = wants.weight
    ? reshape(g, gemm(g, products, reshape(g, r, [-1, 1]), { transA: true }), weight.shape)
    : null
  if (!wants.x) return { dx: null, dWeight }
  const mean = div(g, gemm(g, reshape(g, weight, [1, -1]), products, { transB: true }), countOf(g, weight, [0]))
  const along = mul(g, reshape(g, mean, r.shape), mul(g, r, mul(g, r, r)))
  return { dx: sub(g, mul(g, mul(g, dy, weight), r), mul(g, x, along)), dWeight }
}

export const rmsNormRule: GradientRule = single(({ g, node, dy, x, wants }) => {
  const norm = { x: x(0), weight: x(1), scale: node.outputs[1] as Value, dy }
  const { dx, dWeight } = rmsNormGradients(g, norm, { x: wants(0), weight: wants(1) })
  return [dx, dWeight]
})

/** normed = rmsNorm(sum), sum = x + skip (+ bias): both outputs may carry gradients. The kernel keeps no 1/rms, so it is made again. */
export const skipRmsNormRule: GradientRule = ({ g, node, gradients, wants }) => {
  const [x, , weight, bias] = node.inputs
  const sum = node.outputs[3]
  if (!x || !weight || !sum) return node.inputs.map(() => null)
  const [dNormed, , , dSum] = gradients
  let dx: Value | null = dSum ?? null
  let dWeight: Value | null = null
  if (dNormed) {
    const again = g.node('SimplifiedLayerNormalization', [sum, weight], {
      axis: { kind: 'int', value: -1 },
      ...(node.attributes['epsilon'] === undefined ? {} : { epsilon: node.attributes['epsilon'] }),
    })
    const wantsSum = wants(0) || wants(1) || wants(3)
    const norm = { x: sum, weight, scale: again[1] as Value, dy: dNormed }
    const result = rmsNormGradients(g, norm, { x: wantsSum, weight: wants(2) })
    dWeight = result.dWeight
    if (result.dx !== null) dx = dx === null ? result.dx : add(g, dx, result.dx)
  }
  const dBias = bias && dx !== null && wants(3) ? sumTo(g, dx, bias.shape) : null
  return [wants(0) ? dx : null, wants(1) ? dx : null, dWeight, dBias].slice(0, node.inputs.length)
}

/** A rotation's transpose is the rotation by the opposite angle: the same cosines, negated sines. */
export const rotaryRule: GradientRule = unary(
  ({ g, node, dy, x }) => g.node('RotaryEmbedding', [dy, x(1), x(2), neg(g, x(3))], node.attributes)[0] as Value,
)
