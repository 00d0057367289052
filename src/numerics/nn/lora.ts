/**
 * Low-rank adapters on a joined linear layer: y + scale · (x Aᵀ) Bᵀ for all its projections at once.
 *
 * The A matrices of projections that share an input are stacked and their B matrices put into one block-diagonal matrix: two
 * products of inner size n·R instead of 2·n of size R, for which matrix kernels are slow. The zero blocks cost a few percent and
 * leave the gradient exact. Ranks and scales may differ between projections, and some may have no adapter. Source: LoRA (arXiv:2106.09685).
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { mul } from '#numerics/graph/ops/elementwise.js'
import { gemm } from '#numerics/graph/ops/matmul.js'
import { concat } from '#numerics/graph/ops/shape.js'
import { float32Tensor } from '#numerics/tensor/host-tensor.js'

/** One projection's adapter: A float32 [R, in], B float32 [out, R]. */
export interface LoraPair {
  readonly a: Value
  readonly b: Value
  /** What their product is multiplied with. */
  readonly scale: number
}

/** A projection of a joined layer; `pair` null: it has no adapter. */
export interface LoraPart {
  readonly pair: LoraPair | null
  readonly outputSize: number
}

/**
 * Adds the adapters' output to a joined layer's.
 *
 * @param x input, float32 [M, in]
 * @param y output of the frozen layer, float32 [M, sum of out]
 * @param parts the layer's projections, in the order of y's columns
 * @returns float32 [M, sum of out]
 */
export function addLora(g: GraphBuilder, x: Value, y: Value, parts: readonly LoraPart[]): Value {
  const pairs = parts.flatMap(({ pair }) => (pair === null ? [] : [pair]))
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
  const inner = gemm(g, x, a, { transB: true }) // [M, sum of R]
  // one scale goes into the product; several into each B
  const isScaledAlike = pairs.every(({ scale }) => scale === first.scale)
  const b = ({ b: values, scale }: LoraPair): Value => (isScaledAlike ? values : mul(g, values, g.scalar(scale)))
  const alpha = isScaledAlike ? first.scale : 1
  return gemm(g, inner, blockDiagonal(g, parts, pairs, b), { transB: true, alpha, c: y })
}

/** The B matrices on the diagonal: [sum of out, sum of R]; rows of projections without an adapter are zero. */
function blockDiagonal(
  g: GraphBuilder,
  parts: readonly LoraPart[],
  pairs: readonly LoraPair[],
  scaled: (pair: LoraPair) => Value,
): Value {
  const [only] = pairs
  if (parts.length === 1 && only !== undefined) return scaled(only)
  const rows = parts.map(({ pair: own, outputSize }) => {
    const blocks = pairs.map((pair) => (pair === own ? scaled(pair) : zeros(g, outputSize, rankOf(pair))))
    return blocks.length === 1 ? (blocks[0] as Value) : concat(g, blocks, 1)
  })
  return concat(g, rows, 0)
}

function zeros(g: GraphBuilder, outputs: number, rank: number): Value {
  return g.constant(float32Tensor(new Float32Array(outputs * rank), [outputs, rank]))
}

function rankOf({ b }: LoraPair): number {
  const rank = b.shape[1]
  if (typeof rank !== 'number') throw new Error(`adapter "${b.name}" has no fixed shape`)
  return rank
}
