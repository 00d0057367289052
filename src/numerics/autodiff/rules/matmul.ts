/**
 * Gradients of matrix products, through the flags of other products: no transpose is ever a node.
 *
 * With A' and B' the operands as the product reads them, Y = α·A'·B' gives dA' = α·dY·B'ᵀ and dB' = α·A'ᵀ·dY.
 */
import { readFloat, readInt } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { mul } from '#numerics/graph/ops/elementwise.js'
import { fusedMatmul, gemm } from '#numerics/graph/ops/matmul.js'
import { reshape } from '#numerics/graph/ops/shape.js'
import { type GradientRule, type SingleContext, scalarLike, single, sumTo } from '../rule.js'

interface Flags {
  readonly transA: boolean
  readonly transB: boolean
  readonly alpha: number
}

type Product = (a: Value, b: Value, flags: Flags) => Value

/** Gradients of both operands in their own layout, for every combination of flags. */
function operandGradients(
  { dy, x, wants }: SingleContext,
  { transA, transB, alpha }: Flags,
  product: Product,
): readonly [Value | null, Value | null] {
  const [a, b] = [x(0), x(1)]
  const left = (): Value =>
    transA
      ? product(b, dy, { transA: transB, transB: true, alpha })
      : product(dy, b, { transA: false, transB: !transB, alpha })
  const right = (): Value =>
    transB
      ? product(dy, a, { transA: true, transB: transA, alpha })
      : product(a, dy, { transA: !transA, transB: false, alpha })
  return [wants(0) ? left() : null, wants(1) ? right() : null]
}

function readFlags({ node }: SingleContext): Flags {
  return {
    transA: readInt(node.attributes, 'transA', 0) === 1,
    transB: readInt(node.attributes, 'transB', 0) === 1,
    alpha: readFloat(node.attributes, 'alpha', 1),
  }
}

/** Gemm: matrices only, and a third operand β·C. */
export const gemmRule: GradientRule = single((context) => {
  const { g, node, dy, wants } = context
  const gradients = operandGradients(context, readFlags(context), (a, b, flags) => gemm(g, a, b, flags))
  const [, , c] = node.inputs
  if (!c || !wants(2)) return [...gradients, null].slice(0, node.inputs.length)
  const beta = readFloat(node.attributes, 'beta', 1)
  const summed = sumTo(g, dy, c.shape)
  return [...gradients, beta === 1 ? summed : mul(g, summed, scalarLike(g, summed, beta))]
})

/** MatMul and FusedMatMul: batches broadcast, so gradients are summed back over the broadcast axes. */
export const productRule: GradientRule = single((context) => {
  const { g, x } = context
  const flags = readFlags(context)
  if (isSharedMatrix(context, flags)) return sharedMatrixGradients(context, flags)
  const isMatrices = x(0).shape.length === 2 && x(1).shape.length === 2
  const product: Product = (a, b, options) => (isMatrices ? gemm(g, a, b, options) : fusedMatmul(g, a, b, options))
  const [left, right] = operandGradients(context, flags, product)
  return [left && sumTo(g, left, x(0).shape), right && sumTo(g, right, x(1).shape)]
})

/** A batch times one matrix: the commonest linear layer. */
function isSharedMatrix({ x }: SingleContext, flags: Flags): boolean {
  return x(0).shape.length > 2 && x(1).shape.length === 2 && !flags.transA
}

/** The batch is one tall matrix, so the shared matrix gets its gradient from one product instead of a sum over the batch. */
function sharedMatrixGradients(context: SingleContext, flags: Flags): readonly (Value | null)[] {
  const { g, x, dy, wants } = context
  const flat = (value: Value): Value => reshape(g, value, [-1, value.shape.at(-1) ?? 1])
  const flatContext = { ...context, dy: flat(dy), x: (index: number) => (index === 0 ? flat(x(0)) : x(1)) }
  const [, right] = operandGradients(
    { ...flatContext, wants: (index) => index === 1 && wants(1) },
    flags,
    (a, b, options) => gemm(g, a, b, options),
  )
  return [wants(0) ? leftOfShared(g, dy, x(1), flags) : null, right]
}

function leftOfShared(g: GraphBuilder, dy: Value, b: Value, { transB, alpha }: Flags): Value {
  return fusedMatmul(g, dy, b, { transB: !transB, alpha })
}
