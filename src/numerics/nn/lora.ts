/**
 * Low-rank adapters on a joined linear layer: y + (alpha / R) · (x Aᵀ) Bᵀ for all its projections at once.
 *
 * The A matrices of projections that share an input are stacked and their B matrices put into one block-diagonal matrix: two
 * products of inner size n·R instead of 2·n of size R, for which matrix kernels are slow. The zero blocks cost a few percent and
 * leave the gradient exact. Source: LoRA (arXiv:2106.09685).
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { concat } from '#numerics/graph/ops/shape.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** One projection's adapter: A float32 [R, in], B float32 [out, R]. */
export interface LoraPair {
  readonly a: Value
  readonly b: Value
}

/**
 * Adds the adapters' output to a joined layer's.
 *
 * @param x input, float32 [M, in]
 * @param y output of the frozen layer, float32 [M, sum of out]; the projections' rows in the order of `pairs`
 * @param options.scale alpha / rank
 * @returns float32 [M, sum of out]
 */
export function addLora(
  g: GraphBuilder,
  x: Value,
  y: Value,
  options: { readonly pairs: readonly LoraPair[]; readonly scale: number },
): Value {
  const { pairs, scale } = options
  const [first] = pairs
  if (first === undefined) return y
  const a =
    pairs.length === 1
      ? first.a
      : concat(
          g,
          pairs.map((pair) => pair.a),
          0,
        )
  const inner = gemm(g, x, a, { transB: true }) // [M, n*R]
  return gemm(g, inner, blockDiagonal(g, pairs), { transB: true, alpha: scale, c: y })
}

/** The B matrices on the diagonal: [sum of out, n*R]. */
function blockDiagonal(g: GraphBuilder, pairs: readonly LoraPair[]): Value {
  const [first] = pairs
  if (pairs.length === 1 && first !== undefined) return first.b
  const rows = pairs.map(({ b }, row) => {
    const [outputs, rank] = b.shape
    if (typeof outputs !== 'number' || typeof rank !== 'number')
      throw new Error(`adapter "${b.name}" has no fixed shape`)
    const zeros = g.constant(float32Tensor(new Float32Array(outputs * rank), [outputs, rank]))
    return concat(
      g,
      pairs.map((_, column) => (column === row ? b : zeros)),
      1,
    )
  })
  return concat(g, rows, 0)
}
