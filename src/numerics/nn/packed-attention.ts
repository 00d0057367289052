/**
 * Self-attention of whole rows that autodiff can pass through: for training and scoring.
 *
 * Grouped-query attention without repeating keys: the query heads of one key head are stacked as rows. What a token may see is
 * decided by the mask alone, so packed rows, shared prompts and padding need no code here.
 * Sources: attention (arXiv:1706.03762), grouped queries (arXiv:2305.13245).
 */
import type { GraphBuilder } from '#numerics/graph/builder.js'
import type { Value } from '#numerics/graph/graph.js'
import { type AttentionMask, rowAttention } from '#numerics/graph/ops/attention.js'
import { rotaryEmbedding } from '#numerics/graph/ops/normalize.js'
import { reshape, split, transpose } from '#numerics/graph/ops/shape.js'

/** Sizes and side inputs of attention. */
export interface PackedAttentionOptions {
  readonly headCount: number // H
  readonly kvHeadCount: number // K
  readonly headSize: number // D
  /** Each token's position in its own sequence, int64 [B, T]. */
  readonly positions: Value
  /** What each token sees. */
  readonly mask: AttentionMask
  /** Rotary tables, float32 [positions, D/2]. */
  readonly cos: Value
  readonly sin: Value
  /** Whether queries and keys are turned; default true. */
  readonly isRotated?: boolean
  /** Factor of the scores; default 1 / sqrt(headSize). */
  readonly scale?: number
  /** Applied to query and key heads [B, heads, T, D] before the rotation; default none. */
  readonly normalizeHeads?: ((heads: Value, kind: 'query' | 'key') => Value) | undefined
}

/**
 * Emits attention on a joined projection.
 *
 * @param qkv float32 [B*T, (H+2K)*D]: query heads, key heads, value heads
 * @returns float32 [B*T, H*D]
 */
export function packedAttention(g: GraphBuilder, qkv: Value, options: PackedAttentionOptions): Value {
  const { headCount, kvHeadCount, headSize, positions, mask, cos, sin, isRotated = true } = options
  const { scale = 1 / Math.sqrt(headSize) } = options
  const [b = 'B', t = 'T'] = positions.shape
  const stacked = headCount / kvHeadCount // query heads per key head, H/K
  const heads = transpose(g, reshape(g, qkv, [b, t, headCount + 2 * kvHeadCount, headSize]), [0, 2, 1, 3])
  const [rawQuery, rawKey, value] = split(g, heads, [headCount, kvHeadCount, kvHeadCount], 1)
  if (rawQuery === undefined || rawKey === undefined || value === undefined) throw new Error('split gave too few parts')
  const rotate = (x: Value, kind: 'query' | 'key'): Value => {
    const normed = options.normalizeHeads?.(x, kind) ?? x
    return isRotated ? rotaryEmbedding(g, normed, positions, cos, sin) : normed
  }
  const query = reshape(g, rotate(rawQuery, 'query'), [b, kvHeadCount, stacked, t, headSize])
  const mixed = rowAttention(g, { query, key: rotate(rawKey, 'key'), value }, mask, { scale })
  return reshape(g, mixed, [-1, headCount * headSize])
}
