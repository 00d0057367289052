/**
 * Attention of whole rows as one operator with its own gradient, in one product or in blocks of queries.
 *
 * Probabilities are never kept for the backward pass: its rule (`autodiff/rules/attention.ts`) makes them again from queries and
 * keys. In blocks they never exist whole either: a Loop takes some queries at a time, with the keys that are listed for them, so
 * memory grows with the length of a row and not with its square, and most of the work that a mask would throw away is not done.
 * Who sees whom is then a byte for each pair that a block lists, decided once for all layers.
 * Source: recomputation in FlashAttention (arXiv:2205.14135); here every query still meets all its keys in one softmax.
 */
import { float, int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import { divideDims, multiplyDims } from '../dims.js'
import type { Dim, Value } from '../graph.js'
import { add, cast, mul } from './elementwise.js'
import { gather } from './indexing.js'
import { loop } from './loop.js'
import { fusedMatmul, matmul } from './matmul.js'
import { softmax } from './normalize.js'
import { reshape, transpose, unsqueeze } from './shape.js'

/** Added to the score of what a token may not see; its exponential is exactly 0. */
export const HIDDEN = -1e30

/** Heads after rotation. */
export interface AttentionHeads {
  /** The query heads of each key head together: float32 [B, K, H/K, T, D]. */
  readonly query: Value
  /** float32 [B, K, T, D] */
  readonly key: Value
  readonly value: Value
}

/** Who sees whom, block by block: each block of queries meets the keys that are listed for it. */
export interface BlockedMask {
  /** First query of each block, int64 [Blocks]. */
  readonly starts: Value
  /** Only its size counts: half of the queries of a block, int64 [HalfRows]. */
  readonly halfRows: Value
  /** Indices of the keys of all blocks, ascending in each, int64 [Listed], and where each block's begin, int64 [Blocks + 1]. */
  readonly keyIndices: Value
  readonly keyBounds: Value
  /** Where a block lists each key, int64 [Blocks, T]; the number of its keys for those that it does not. */
  readonly keyPlaces: Value
  /** 0 where a query of a block sees a key of its list, else 1: [B, rows, keys] of each block behind that of the one before, uint8 [Pairs]. */
  readonly hidden: Value
  /** Where each block's begin, int64 [Blocks + 1]. */
  readonly hiddenBounds: Value
}

/** A dense bias, float32 [B, T, T], 0 where a token is seen, or what decides it in blocks. */
export type AttentionMask =
  | { readonly kind: 'whole'; readonly bias: Value }
  | ({ readonly kind: 'blocked' } & BlockedMask)

/**
 * Attention of heads under a mask.
 *
 * @returns float32 [B, T, H, D]
 */
export function rowAttention(
  g: GraphBuilder,
  heads: AttentionHeads,
  mask: AttentionMask,
  options: { readonly scale: number },
): Value {
  const { query, key, value } = heads
  const { scale } = options
  const mixed = mask.kind === 'whole' ? mixWhole(g, heads, mask.bias, scale) : mixBlocks(g, heads, mask, scale)
  const attributes = { scale: float(scale) }
  const inputs = [mixed, query, key, value, ...maskInputs(mask)]
  const type = { dtype: mixed.dtype, shape: mixed.shape } as const
  return g.node('RowAttention', inputs, attributes, { outputs: [type] })[0] as Value
}

function maskInputs(mask: AttentionMask): readonly Value[] {
  if (mask.kind === 'whole') return [mask.bias]
  const { starts, halfRows, keyIndices, keyBounds, keyPlaces, hidden, hiddenBounds } = mask
  return [starts, halfRows, keyIndices, keyBounds, keyPlaces, hidden, hiddenBounds]
}

/** What `maskInputs` listed, read back by the gradient rule. */
export function maskOf(inputs: readonly Value[]): AttentionMask {
  const [first, ...others] = inputs
  if (first === undefined) throw new Error('attention has a mask')
  if (others.length === 0) return { kind: 'whole', bias: first }
  const [halfRows, keyIndices, keyBounds, keyPlaces, hidden, hiddenBounds] = others as [
    Value,
    Value,
    Value,
    Value,
    Value,
    Value,
  ]
  return { kind: 'blocked', starts: first, halfRows, keyIndices, keyBounds, keyPlaces, hidden, hiddenBounds }
}

/**
 * Probabilities of some queries over some keys.
 *
 * @param query [B, K, P, H/K * C / P, D], `key` [B, K, 1, E, D], `bias` [B, 1, 1, C, E]
 * @returns [B, K, P, H/K * C / P, E]
 */
export function attentionProbabilities(
  g: GraphBuilder,
  { query, key, bias }: { readonly query: Value; readonly key: Value; readonly bias: Value },
  scale: number,
): Value {
  const scores = fusedMatmul(g, query, key, { transB: true, alpha: scale })
  const [b = 'B', kvHeadCount = 1, parts = 1, partRows = 1] = query.shape
  const [, , , rows = 1, keys = 1] = bias.shape
  // One bias for all heads: seen as [B, K, H/K, C, E] the scores broadcast with it, and nothing is repeated.
  const stacked = stackedCount(multiplyDims(parts, partRows), rows)
  const biased = add(g, reshape(g, scores, [b, kvHeadCount, stacked, rows, keys]), bias)
  return reshape(g, softmax(g, biased, -1), [b, kvHeadCount, parts, partRows, keys])
}

function stackedCount(stackedRows: Dim, rows: Dim): number {
  for (let count = 1; count <= 1024; count++) if (multiplyDims(count, rows) === stackedRows) return count
  throw new Error(`${stackedRows} rows are no multiple of ${rows}`)
}

function mixWhole(g: GraphBuilder, heads: AttentionHeads, bias: Value, scale: number): Value {
  const query = stackHeads(g, heads.query)
  const seen = { key: unsqueeze(g, heads.key, [2]), value: unsqueeze(g, heads.value, [2]) }
  const probabilities = attentionProbabilities(g, { query, key: seen.key, bias: unsqueeze(g, bias, [1, 2]) }, scale)
  return byToken(g, matmul(g, probabilities, seen.value), heads.query)
}

/**
 * The queries of one key head as rows of one product, in `parts` parts: [B, K, H/K, C, D] as [B, K, P, H/K * C / P, D].
 *
 * A processor of two cores computes three products in the time of four, so an odd number of them is cut in two.
 */
export function stackHeads(g: GraphBuilder, x: Value, parts = 1): Value {
  const [b = 'B', kvHeadCount = 1, stacked = 1, rows = 1, size = 1] = x.shape
  const partRows = divideDims(multiplyDims(stacked, rows), parts)
  if (partRows === null) throw new Error(`${stacked} times ${rows} rows do not fall into ${parts} parts`)
  return reshape(g, x, [b, kvHeadCount, parts, partRows, size])
}

/** Parts of the products of a block. One head is cut by the product itself. */
export function partsOf({ key }: Pick<AttentionHeads, 'key'>): number {
  const kvHeadCount = Number(key.shape[1])
  return kvHeadCount > 1 && kvHeadCount % 2 === 1 ? 2 : 1
}

/** Stacked heads [B, K, P, H/K * C / P, D] as [B, C, H, D]. @param like the unstacked queries */
function byToken(g: GraphBuilder, mixed: Value, like: Value): Value {
  const [b = 'B', kvHeadCount = 1, stacked = 1, rows = 1, size = 1] = like.shape
  const heads = multiplyDims(kvHeadCount, stacked)
  return transpose(g, reshape(g, mixed, [b, heads, rows, size]), [0, 2, 1, 3])
}

function mixBlocks(g: GraphBuilder, heads: AttentionHeads, mask: BlockedMask, scale: number): Value {
  const padded = padQueries(g, heads.query, 3, mask)
  const biasOf = blockBias(g, heads, mask)
  const { scanned } = loop(g, {
    count: 'Blocks',
    carried: [],
    body: (body, index) => {
      const range = blockRange(body, mask, index)
      const rows = blockQueries(body, padded, range, 3)
      const query = stackHeads(body, rows, partsOf(heads))
      const { key, value } = blockKeys(body, heads, range)
      const probabilities = attentionProbabilities(body, { query, key, bias: biasOf(body, range) }, scale)
      return { scanned: [byToken(body, matmul(body, probabilities, value), rows)] }
    },
  })
  return joinBlocks(g, scanned[0] as Value, 1, heads.key.shape[2] as Dim)
}

/** Where a block lies. */
export interface BlockRange {
  /** Its number, int64 [1]. */
  readonly at: Value
  /** The number of the next one, int64 [1]. */
  readonly next: Value
  /** int64 [1] */
  readonly start: Value
  readonly end: Value
  /** The keys it meets, int64 [Keys]. */
  readonly keys: Value
}

export function blockRange(g: GraphBuilder, mask: BlockedMask, index: Value): BlockRange {
  const at = unsqueeze(g, index, [0])
  const next = add(g, at, g.int64s([1]))
  const start = gather(g, mask.starts, at, 0)
  const end = add(g, start, g.dimValue(blockRows(mask)))
  const from = gather(g, mask.keyBounds, at, 0)
  const to = gather(g, mask.keyBounds, next, 0)
  return { at, next, start, end, keys: cut(g, mask.keyIndices, { start: from, end: to, axis: 0, length: 'Keys' }) }
}

function blockRows({ halfRows }: BlockedMask): Dim {
  return multiplyDims(2, halfRows.shape[0] as Dim)
}

/** The rows of a block, from a tensor padded to whole blocks. */
export function blockQueries(g: GraphBuilder, x: Value, { start, end }: BlockRange, axis: number): Value {
  return cut(g, x, { start, end, axis, length: multiplyDims(2, 'HalfRows') })
}

/** The keys and values that a block meets, [B, K, 1, Keys, D]. */
export function blockKeys(
  g: GraphBuilder,
  { key, value }: Pick<AttentionHeads, 'key' | 'value'>,
  { keys }: BlockRange,
): { readonly key: Value; readonly value: Value } {
  const listed = (x: Value): Value => unsqueeze(g, gather(g, x, keys, 2), [2])
  return { key: listed(key), value: listed(value) }
}

function cut(
  g: GraphBuilder,
  x: Value,
  range: { readonly start: Value; readonly end: Value; readonly axis: number; readonly length: Dim },
): Value {
  const { start, end, axis, length } = range
  const shape = x.shape.map((dim, other) => (other === axis ? length : dim))
  return g.node('Slice', [x, start, end, g.int64s([axis])], {}, { outputs: [{ dtype: x.dtype, shape }] })[0] as Value
}

/** Zeros behind the last token, up to whole blocks. */
export function padQueries(g: GraphBuilder, x: Value, axis: number, mask: BlockedMask): Value {
  const whole = multiplyDims(mask.starts.shape[0] as Dim, blockRows(mask))
  const length = x.shape[axis] as Dim
  const after = g.node('Sub', [g.dimValue(whole), g.dimValue(length)])[0] as Value
  const none = (count: number): Value => g.int64s(Array.from({ length: count }, () => 0))
  const rank = x.shape.length
  const rest = rank - 1 - axis
  const sizes = g.node('Concat', [none(rank + axis), after, ...(rest === 0 ? [] : [none(rest)])], { axis: int(0) })[0]
  const shape = x.shape.map((dim, other) => (other === axis ? whole : dim))
  return g.node('Pad', [x, sizes as Value], {}, { outputs: [{ dtype: x.dtype, shape }] })[0] as Value
}

/** Scanned blocks [Blocks, .., BlockRows, ..] as one tensor whose `axis` has `length` rows again. */
export function joinBlocks(g: GraphBuilder, blocks: Value, axis: number, length: Dim): Value {
  const rank = blocks.shape.length
  const order = Array.from({ length: rank - 1 }, (_, at) => at + 1)
  order.splice(axis, 0, 0)
  const moved = transpose(g, blocks, order)
  const whole = multiplyDims(blocks.shape[0] as Dim, blocks.shape[axis + 1] as Dim)
  const shape = blocks.shape.slice(1).map((dim, at) => (at === axis ? whole : dim))
  const joined = reshape(g, moved, shape)
  return cut(g, joined, { start: g.int64s([0]), end: g.dimValue(length), axis, length })
}

/** Makes the bias of a block, float32 [B, 1, 1, BlockRows, Keys]: all heads share it, so this is little beside their scores. */
export function blockBias(
  g: GraphBuilder,
  { key }: Pick<AttentionHeads, 'key'>,
  mask: BlockedMask,
): (body: GraphBuilder, range: BlockRange) => Value {
  const [batch = 'B'] = key.shape
  const rows = blockRows(mask)
  // The same for all blocks, so that it is made once; what is left are the keys.
  const sizes = g.node('Concat', [g.dimValue(batch), g.int64s([1, 1]), g.dimValue(rows), g.int64s([-1])], {
    axis: int(0),
  })[0] as Value
  return (body, { at, next }) => {
    const start = gather(body, mask.hiddenBounds, at, 0)
    const end = gather(body, mask.hiddenBounds, next, 0)
    const flat = cut(body, mask.hidden, { start, end, axis: 0, length: 'BlockPairs' })
    const type = { dtype: flat.dtype, shape: [batch, 1, 1, rows, 'Keys'] } as const
    const hidden = body.node('Reshape', [flat, sizes], {}, { outputs: [type] })[0] as Value
    return mul(body, cast(body, hidden, 'float32'), body.scalar(HIDDEN))
  }
}
