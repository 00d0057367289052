/**
 * Attention of whole rows as one operator with its own gradient, in one product or in blocks of queries.
 *
 * Probabilities are never kept for the backward pass: its rule (`autodiff/rules/attention.ts`) makes them again from queries and
 * keys. In blocks they never exist whole either: a Loop takes some queries at a time, with the keys that are listed for them, so
 * memory grows with the length of a row and not with its square, and most of the work that a mask would throw away is not done.
 * Who sees whom is then decided inside a block, from the tokens' segments.
 * Source: recomputation in FlashAttention (arXiv:2205.14135); here every query still meets all its keys in one softmax.
 */
import { float, int } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import { multiplyDims } from '../dims.js'
import type { Dim, Value } from '../graph.js'
import { add, and, cast, equal, less, lessOrEqual, or, sub, where } from './elementwise.js'
import { gather } from './index.js'
import { loop } from './loop.js'
import { fusedMatmul, matmul } from './matmul.js'
import { softmax } from './normalize.js'
import { reshape, transpose, unsqueeze } from './shape.js'

/** Added to the score of what a token may not see; its exponential is exactly 0. */
const HIDDEN = -1e30

/** Heads after rotation. */
export interface AttentionHeads {
  /** The query heads of each key head together: float32 [B, K, H/K, T, D]. */
  readonly query: Value
  /** float32 [B, K, T, D] */
  readonly key: Value
  readonly value: Value
}

/** Who sees whom, decided block by block: each block of queries meets the keys that are listed for it. */
export interface BlockedMask {
  /** First query of each block, int64 [Blocks]. */
  readonly starts: Value
  /** 0, 1, … within a block, int64 [BlockRows]. */
  readonly offsets: Value
  /** Indices of the keys of all blocks, ascending in each, int64 [Listed], and where each block's begin, int64 [Blocks + 1]. */
  readonly keyIndices: Value
  readonly keyBounds: Value
  /** Where a block lists each key, int64 [Blocks, T]; the number of its keys for those that it does not. */
  readonly keyPlaces: Value
  /** Segment of each token, int32 [B, T]. */
  readonly groups: Value
  /** Segment whose tokens it sees besides its own, int32 [B, T]. */
  readonly parents: Value
  /** Each token's position in its own sequence, int64 [B, T]; a query sees keys less than `window` behind it. */
  readonly window: { readonly positions: Value; readonly size: number } | null
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
  const attributes = {
    scale: float(scale),
    ...(mask.kind === 'blocked' && mask.window !== null ? { window: int(mask.window.size) } : {}),
  }
  const inputs = [mixed, query, key, value, ...maskInputs(mask)]
  const type = { dtype: mixed.dtype, shape: mixed.shape } as const
  return g.node('RowAttention', inputs, attributes, { outputs: [type] })[0] as Value
}

function maskInputs(mask: AttentionMask): readonly Value[] {
  if (mask.kind === 'whole') return [mask.bias]
  const { starts, offsets, keyIndices, keyBounds, keyPlaces, groups, parents, window } = mask
  const always = [starts, offsets, keyIndices, keyBounds, keyPlaces, groups, parents]
  return [...always, ...(window === null ? [] : [window.positions])]
}

/** What `maskInputs` listed, read back by the gradient rule. */
export function maskOf(inputs: readonly Value[], windowSize: number): AttentionMask {
  const [first, ...others] = inputs
  if (first === undefined) throw new Error('attention has a mask')
  if (others.length === 0) return { kind: 'whole', bias: first }
  const [offsets, keyIndices, keyBounds, keyPlaces, groups, parents, positions] = others as [
    Value,
    Value,
    Value,
    Value,
    Value,
    Value,
    Value?,
  ]
  const window = positions === undefined ? null : { positions, size: windowSize }
  return { kind: 'blocked', starts: first, offsets, keyIndices, keyBounds, keyPlaces, groups, parents, window }
}

/**
 * Probabilities of some queries over some keys.
 *
 * @param query [B, K, H/K * C, D], `key` [B, K, E, D], `bias` [B, C, E]
 * @returns [B, K, H/K * C, E]
 */
export function attentionProbabilities(
  g: GraphBuilder,
  { query, key, bias }: { readonly query: Value; readonly key: Value; readonly bias: Value },
  scale: number,
): Value {
  const scores = fusedMatmul(g, query, key, { transB: true, alpha: scale })
  const [b = 'B', kvHeadCount = 1, stackedRows = 1] = query.shape
  const [, rows = 1, keys = 1] = bias.shape
  // One bias for all heads: seen as [B, K, H/K, C, E] the scores broadcast with it, and nothing is repeated.
  const stacked = Number(stackedCount(stackedRows, rows))
  const biased = add(
    g,
    reshape(g, scores, [b, kvHeadCount, stacked, rows, keys]),
    reshape(g, bias, [b, 1, 1, rows, keys]),
  )
  return reshape(g, softmax(g, biased, -1), [b, kvHeadCount, stackedRows, keys])
}

function stackedCount(stackedRows: Dim, rows: Dim): Dim {
  for (let count = 1; count <= 1024; count++) if (multiplyDims(count, rows) === stackedRows) return count
  throw new Error(`${stackedRows} rows are no multiple of ${rows}`)
}

function mixWhole(g: GraphBuilder, heads: AttentionHeads, bias: Value, scale: number): Value {
  const query = stackHeads(g, heads.query)
  const probabilities = attentionProbabilities(g, { query, key: heads.key, bias }, scale)
  return byToken(g, matmul(g, probabilities, heads.value), heads.query)
}

/** [B, K, H/K, C, D] as [B, K, H/K * C, D]: the queries of one key head as rows of one product. */
export function stackHeads(g: GraphBuilder, x: Value): Value {
  const [b = 'B', kvHeadCount = 1, stacked = 1, rows = 1, size = 1] = x.shape
  return reshape(g, x, [b, kvHeadCount, multiplyDims(stacked, rows), size])
}

/** Stacked heads [B, K, H/K * C, D] as [B, C, H, D]. @param like the unstacked queries */
function byToken(g: GraphBuilder, mixed: Value, like: Value): Value {
  const [b = 'B', kvHeadCount = 1, stacked = 1, rows = 1, size = 1] = like.shape
  const heads = multiplyDims(kvHeadCount, stacked)
  return transpose(g, reshape(g, mixed, [b, heads, rows, size]), [0, 2, 1, 3])
}

function mixBlocks(g: GraphBuilder, heads: AttentionHeads, mask: BlockedMask, scale: number): Value {
  const padded = { query: padQueries(g, heads.query, 3, mask), ...padMask(g, mask) }
  const { scanned } = loop(g, {
    count: 'Blocks',
    carried: [],
    body: (body, index) => {
      const range = blockRange(body, mask, index)
      const rows = blockQueries(body, padded.query, range, 3)
      const query = stackHeads(body, rows)
      const { key, value } = blockKeys(body, heads, range)
      const bias = blockBias(body, { ...mask, ...padded }, range)
      const probabilities = attentionProbabilities(body, { query, key, bias }, scale)
      return { scanned: [byToken(body, matmul(body, probabilities, value), rows)] }
    },
  })
  return joinBlocks(g, scanned[0] as Value, 1, heads.key.shape[2] as Dim)
}

/** Where a block lies. */
export interface BlockRange {
  /** int64 [1] */
  readonly start: Value
  readonly end: Value
  /** The keys it meets, int64 [Keys]. */
  readonly keys: Value
}

export function blockRange(
  g: GraphBuilder,
  { starts, offsets, keyIndices, keyBounds }: BlockedMask,
  index: Value,
): BlockRange {
  const at = unsqueeze(g, index, [0])
  const start = gather(g, starts, at, 0)
  const end = add(g, start, g.dimValue(offsets.shape[0] as Dim))
  const from = gather(g, keyBounds, at, 0)
  const to = gather(g, keyBounds, add(g, at, g.int64s([1])), 0)
  return { start, end, keys: cut(g, keyIndices, { start: from, end: to, axis: 0, length: 'Keys' }) }
}

/** The rows of a block, from a tensor padded to whole blocks. */
export function blockQueries(g: GraphBuilder, x: Value, { start, end }: BlockRange, axis: number): Value {
  return cut(g, x, { start, end, axis, length: 'BlockRows' })
}

/** The keys and values that a block meets. */
export function blockKeys(
  g: GraphBuilder,
  { key, value }: Pick<AttentionHeads, 'key' | 'value'>,
  { keys }: BlockRange,
): { readonly key: Value; readonly value: Value } {
  return { key: gather(g, key, keys, 2), value: gather(g, value, keys, 2) }
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

/** What a mask says of queries, padded to whole blocks. */
export interface PaddedMask {
  readonly queryGroups: Value
  readonly queryParents: Value
  readonly queryPositions: Value | null
}

/** Rows of padding belong to no segment and see nothing. */
export function padMask(g: GraphBuilder, mask: BlockedMask): PaddedMask {
  const nobody = g.constant({ dtype: 'int32', shape: [], data: Int32Array.of(-2) })
  return {
    queryGroups: padQueries(g, mask.groups, 1, mask, nobody),
    queryParents: padQueries(g, mask.parents, 1, mask, nobody),
    queryPositions: mask.window === null ? null : padQueries(g, mask.window.positions, 1, mask, g.int64Scalar(0)),
  }
}

/** Zeros (or `value`) behind the last token, up to whole blocks. */
export function padQueries(g: GraphBuilder, x: Value, axis: number, mask: BlockedMask, value?: Value): Value {
  const whole = multiplyDims(mask.starts.shape[0] as Dim, mask.offsets.shape[0] as Dim)
  const length = x.shape[axis] as Dim
  const after = g.node('Sub', [g.dimValue(whole), g.dimValue(length)])[0] as Value
  const none = (count: number): Value => g.int64s(Array.from({ length: count }, () => 0))
  const rank = x.shape.length
  const rest = rank - 1 - axis
  const sizes = g.node('Concat', [none(rank + axis), after, ...(rest === 0 ? [] : [none(rest)])], { axis: int(0) })[0]
  const shape = x.shape.map((dim, other) => (other === axis ? whole : dim))
  const inputs = [x, sizes as Value, ...(value === undefined ? [] : [value])]
  return g.node('Pad', inputs, {}, { outputs: [{ dtype: x.dtype, shape }] })[0] as Value
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

/** The bias of one block, float32 [B, BlockRows, Keys]. */
export function blockBias(g: GraphBuilder, mask: BlockedMask & PaddedMask, range: BlockRange): Value {
  const ofQueries = (x: Value): Value => unsqueeze(g, blockQueries(g, x, range, 1), [2])
  const ofKeys = (x: Value): Value => unsqueeze(g, gather(g, x, range.keys, 1), [1])
  const groups = ofKeys(mask.groups)
  const related = or(g, equal(g, ofQueries(mask.queryGroups), groups), equal(g, ofQueries(mask.queryParents), groups))
  const isBefore = lessOrEqual(g, unsqueeze(g, range.keys, [0]), unsqueeze(g, add(g, mask.offsets, range.start), [1]))
  const seen = and(g, related, isBefore)
  return where(g, isNear(g, mask, { seen, ofQueries, ofKeys }), g.scalar(0), g.scalar(HIDDEN))
}

function isNear(
  g: GraphBuilder,
  { window, queryPositions }: BlockedMask & PaddedMask,
  parts: { readonly seen: Value; readonly ofQueries: (x: Value) => Value; readonly ofKeys: (x: Value) => Value },
): Value {
  const { seen, ofQueries, ofKeys } = parts
  if (window === null || queryPositions === null) return seen
  const distance = sub(g, ofQueries(queryPositions), ofKeys(window.positions))
  return and(g, seen, less(g, cast(g, distance, 'float32'), g.scalar(window.size)))
}
