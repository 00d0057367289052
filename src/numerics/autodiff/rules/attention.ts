/**
 * The gradient of `RowAttention` (`graph/ops/attention.ts`): probabilities are made again from queries and keys.
 *
 * With P = softmax(α·Q·Kᵀ + bias) and O = P·V: dV = Pᵀ·dO, dP = dO·Vᵀ, dS = P·(dP − δ), dQ = α·dS·K, dK = α·dSᵀ·Q, where δ, the
 * sum of P·dP over a query's keys, is the sum of dO·O over its D numbers and needs no pass over all pairs.
 * Source: FlashAttention (arXiv:2205.14135), appendix B.
 */
import { readFloat } from '#numerics/graph/attributes.js'
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Dim, Value } from '#numerics/graph/graph.js'
import {
  type AttentionHeads,
  type AttentionMask,
  attentionProbabilities,
  blockBias,
  blockKeys,
  blockQueries,
  blockRange,
  joinBlocks,
  maskOf,
  padQueries,
  partsOf,
  stackHeads,
} from '#numerics/graph/ops/attention.js'
import { add, mul, sub } from '#numerics/graph/ops/elementwise.js'
import { gather } from '#numerics/graph/ops/indexing.js'
import { loop } from '#numerics/graph/ops/loop.js'
import { fusedMatmul } from '#numerics/graph/ops/matmul.js'
import { reduceSum } from '#numerics/graph/ops/reduce.js'
import { concat, expand, reshape, squeeze, transpose, unsqueeze } from '#numerics/graph/ops/shape.js'
import { after } from '../after.js'
import { type GradientRule, single } from '../rule.js'

/** What every gradient of attention is made of. */
interface Arriving {
  readonly heads: AttentionHeads
  /** Gradient of the mixed values by head, [B, K, H/K, T, D]. */
  readonly dOut: Value
  /** Sum of dO·O of each query, [B, K, H/K, T, 1]. */
  readonly delta: Value
  readonly scale: number
}

interface Leaving {
  readonly query: Value
  readonly key: Value
  readonly value: Value
}

export const rowAttentionRule: GradientRule = single(({ g, node, dy, y, x }) => {
  const [query, key, value] = [x(1), x(2), x(3)]
  const mask = maskOf(node.inputs.slice(4).map((_, at) => x(at + 4)))
  const [b = 'B', kvHeadCount = 1, stacked = 1, rows = 1, size = 1] = query.shape
  const byHead = (perToken: Value, width: Dim): Value =>
    reshape(g, transpose(g, perToken, [0, 2, 1, 3]), [b, kvHeadCount, stacked, rows, width])
  const arriving = {
    heads: { query, key, value },
    dOut: byHead(dy, size),
    delta: byHead(reduceSum(g, mul(g, dy, y), [3]), 1),
    scale: readFloat(node.attributes, 'scale', 1),
  }
  const leaving = mask.kind === 'whole' ? wholeGradient(g, arriving, mask.bias) : blockedGradient(g, arriving, mask)
  const others = node.inputs.slice(4).map(() => null)
  return [null, leaving.query, leaving.key, leaving.value, ...others]
})

function wholeGradient(g: GraphBuilder, { heads, dOut, delta, scale }: Arriving, bias: Value): Leaving {
  // Waits for the gradient: otherwise these would be the probabilities of the forward pass, kept until now.
  const query = stackHeads(g, after(g, heads.query, [dOut]))
  const seen = { key: unsqueeze(g, heads.key, [2]), value: unsqueeze(g, heads.value, [2]) }
  const probabilities = attentionProbabilities(g, { query, key: seen.key, bias: unsqueeze(g, bias, [1, 2]) }, scale)
  const gradient = productGradients(
    g,
    { ...seen, probabilities, query, dOut: stackHeads(g, dOut), delta: stackHeads(g, delta) },
    scale,
  )
  return { ...gradient, query: reshape(g, gradient.query, heads.query.shape) }
}

/** Gradients of stacked queries [B, K, P, H/K * C / P, D], and of keys and values, [B, K, E, D]. */
function productGradients(
  g: GraphBuilder,
  parts: AttentionHeads & { readonly probabilities: Value; readonly dOut: Value; readonly delta: Value },
  scale: number,
): Leaving {
  const { probabilities, query, key, value, dOut, delta } = parts
  const dProbabilities = fusedMatmul(g, dOut, value, { transB: true })
  const dScores = mul(g, probabilities, sub(g, dProbabilities, delta))
  const summed = (products: Value): Value =>
    products.shape[2] === 1 ? squeeze(g, products, [2]) : reduceSum(g, products, [2], { keepDims: false })
  return {
    value: summed(fusedMatmul(g, probabilities, dOut, { transA: true })),
    query: fusedMatmul(g, dScores, key, { alpha: scale }),
    key: summed(fusedMatmul(g, dScores, query, { transA: true, alpha: scale })),
  }
}

function blockedGradient(
  g: GraphBuilder,
  { heads, dOut, delta, scale }: Arriving,
  mask: Extract<AttentionMask, { readonly kind: 'blocked' }>,
): Leaving {
  const padded = {
    query: padQueries(g, heads.query, 3, mask),
    dOut: padQueries(g, dOut, 3, mask),
    delta: padQueries(g, delta, 3, mask),
  }
  const biasOf = blockBias(g, heads, mask)
  const stack = (body: GraphBuilder, x: Value): Value => stackHeads(body, x, partsOf(heads))
  const zeros = expand(g, g.scalar(0), heads.key.shape)
  const { carried, scanned } = loop(g, {
    count: 'Blocks',
    carried: [zeros, zeros],
    body: (body, index, [dKey, dValue]) => {
      const range = blockRange(body, mask, index)
      const places = gather(body, mask.keyPlaces, index, 0) // [T]
      const rows = (x: Value): Value => blockQueries(body, x, range, 3)
      const query = rows(padded.query)
      const seen = blockKeys(body, heads, range)
      const parts = { ...seen, query: stack(body, query) }
      const probabilities = attentionProbabilities(body, { ...parts, bias: biasOf(body, range) }, scale)
      const arriving = { dOut: stack(body, rows(padded.dOut)), delta: stack(body, rows(padded.delta)) }
      const gradient = productGradients(body, { ...parts, ...arriving, probabilities }, scale)
      const summed = (sum: Value | undefined, part: Value): Value =>
        add(body, sum as Value, spreadKeys(body, part, places))
      return {
        carried: [summed(dKey, gradient.key), summed(dValue, gradient.value)],
        scanned: [reshape(body, gradient.query, query.shape)],
      }
    },
  })
  const [dKey, dValue] = carried
  return {
    query: joinBlocks(g, scanned[0] as Value, 3, heads.key.shape[2] as Dim),
    key: dKey as Value,
    value: dValue as Value,
  }
}

/** The gradient of all keys from that of the listed ones [B, K, Keys, D]: zeros for the others. */
function spreadKeys(g: GraphBuilder, part: Value, places: Value): Value {
  const [b = 'B', kvHeadCount = 1, , size = 1] = part.shape
  const zeros = expand(g, g.scalar(0), [b, kvHeadCount, 1, size])
  return gather(g, concat(g, [part, zeros], 2), places, 2)
}
