/**
 * Dropout of a matrix of inputs: some are left out, the others are larger by 1 / (1 - share), so that the mean stays.
 *
 * The mask is made in the graph out of one random number u of each row and v of each column, uniform in [0, 1): an input is left out
 * where the fraction of u + v is below the share. So a mask of [M, in] costs M + in numbers of memory, is the same wherever IEEE float32
 * is added, and is made again where a layer is computed again. The bits of one row are independent of each other, and so are those of
 * one column; between four corners of a rectangle there is a dependence, which neither a row's output nor a column's gradient sees.
 * Source: dropout as PyTorch scales it; of LoRA as in PEFT, which draws every bit by itself.
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { add, less, mul, sub, where } from '#numerics/graph/ops/elementwise.js'
import { reshape } from '#numerics/graph/ops/shape.js'

/**
 * @param x float32 [M, in]
 * @param mask.rows u, float32 [M]
 * @param mask.columns v, float32 [in]
 * @param mask.share of inputs that are left out, 0 to below 1
 * @returns float32 [M, in]
 */
export function dropout(
  g: GraphBuilder,
  x: Value,
  { rows, columns, share }: { readonly rows: Value; readonly columns: Value; readonly share: number },
): Value {
  const one = g.scalar(1)
  const sum = add(g, reshape(g, rows, [-1, 1]), columns)
  const fraction = where(g, less(g, sum, one), sum, sub(g, sum, one))
  return mul(g, x, where(g, less(g, fraction, g.scalar(share)), g.scalar(0), g.scalar(1 / (1 - share))))
}
