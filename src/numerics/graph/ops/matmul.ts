/**
 * Matrix products. Flags transpose the last two axes inside the product, which costs nothing.
 */
import { float, int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import type { Value } from '../graph.js'

/** How the operands of a product are read. */
export interface ProductOptions {
  /** Swap the last two axes of the first operand; default false. */
  readonly transA?: boolean
  /** Swap the last two axes of the second operand; default false. */
  readonly transB?: boolean
  /** Factor on the product; default 1. */
  readonly alpha?: number
}

export interface GemmOptions extends ProductOptions {
  /** Added to the product, broadcast to [M, N]; default nothing. */
  readonly c?: Value | undefined
  /** Factor on `c`; default 1. */
  readonly beta?: number
}

/** A block-quantized weight in the layout of `com.microsoft.MatMulNBits`. */
export interface NBitsWeight {
  /** uint8 [N, ceil(K / blockSize), blockSize * bits / 8]. */
  readonly quantized: Value
  /** float32 [N, ceil(K / blockSize)] or flat. */
  readonly scales: Value
  /** uint8, packed as the weights; default: the middle of the range. */
  readonly zeroPoints?: Value | undefined
  readonly bias?: Value | undefined
  /** N, output features. */
  readonly rows: number
  /** K, input features. */
  readonly columns: number
  readonly bits: 4 | 8
  readonly blockSize: number
  /** 4 lets the kernel quantize activations to int8 per block; 0 keeps them float. Default 4. */
  readonly accuracyLevel?: number
}

/** Batched product [.., M, N] · [.., N, P] → [.., M, P]; leading axes broadcast. */
export function matmul(g: GraphBuilder, a: Value, b: Value): Value {
  return g.node('MatMul', [a, b])[0] as Value
}

/**
 * alpha · a · b + beta · c for matrices.
 *
 * @example
 * const y = gemm(g, x, weight, { transB: true, c: bias }) // x [M, in], weight [out, in] as stored → y [M, out]
 */
export function gemm(g: GraphBuilder, a: Value, b: Value, options: GemmOptions = {}): Value {
  const { c, beta = 1 } = options
  const attributes = c !== undefined && beta !== 1 ? { ...flags(options), beta: float(beta) } : flags(options)
  return g.node('Gemm', c === undefined ? [a, b] : [a, b, c], attributes)[0] as Value
}

/** `matmul` with transposes and a factor; plain MatMul if neither is asked for. */
export function fusedMatmul(g: GraphBuilder, a: Value, b: Value, options: ProductOptions = {}): Value {
  const attributes = flags(options)
  if (Object.keys(attributes).length === 0) return matmul(g, a, b)
  return g.node('FusedMatMul', [a, b], attributes)[0] as Value
}

/** x [.., K] times a block-quantized weight [N, K], transposed: [.., N]. Not differentiable. */
export function matmulNBits(g: GraphBuilder, x: Value, weight: NBitsWeight): Value {
  const attributes = {
    K: int(weight.columns),
    N: int(weight.rows),
    bits: int(weight.bits),
    block_size: int(weight.blockSize),
    accuracy_level: int(weight.accuracyLevel ?? 4),
  }
  const inputs = [x, weight.quantized, weight.scales, weight.zeroPoints ?? null, null, weight.bias ?? null]
  while (inputs.at(-1) === null) inputs.pop()
  return g.node('MatMulNBits', inputs, attributes)[0] as Value
}

/** Only what differs from the default is written, so that equal products compare equal. */
function flags({ transA, transB, alpha = 1 }: ProductOptions): Record<string, ReturnType<typeof int>> {
  return {
    ...(transA ? { transA: int(1) } : {}),
    ...(transB ? { transB: int(1) } : {}),
    ...(alpha !== 1 ? { alpha: float(alpha) } : {}),
  }
}
