/**
 * Attention in blocks of queries: which keys each block meets.
 *
 * All rows of a batch count as one sequence of tokens, whose segments differ. A block then meets the tokens of its own segments
 * and of their parents, up to its last one, and no others: answers to one prompt never meet each other, nor rows their
 * neighbours. What a query of the block does not see of those is masked.
 */

/** Longest row whose attention is computed whole, by a bias over all pairs of tokens, in jobs that have no longer one. */
export const DENSE_ATTENTION_TOKENS = 128
/** Most queries of a block: many enough for products to be fast, few enough to skip what is masked. */
const BLOCK_ROWS = 128
/** The same for long rows, where blocks pass over all keys' gradients again and again. */
const LONG_BLOCK_ROWS = 256
const LONG_TOKENS = 2048

/** Tokens of rows one behind the other; segments of different rows have different numbers. */
export interface TokenSegments {
  /** Segment of each token; the padding of a row is one too. */
  readonly groupIds: Int32Array
  /** Segment whose tokens it sees besides its own. */
  readonly parentIds: Int32Array
}

/** Blocks of equally many queries, the last one short of some. */
export interface AttentionBlocks {
  /** First query of each. */
  readonly starts: readonly number[]
  /** Queries of each. */
  readonly rows: number
  /** Keys of each, ascending; never none. */
  readonly keys: readonly Int32Array[]
}

/** Most queries whose attention is computed at once. By the data alone, so that a job's bits do not depend on the machine. */
export function attentionBlockRows(tokens: number): number {
  return tokens > LONG_TOKENS ? LONG_BLOCK_ROWS : BLOCK_ROWS
}

/** Cuts tokens into blocks of at most `most` queries, as few as that and an even number of queries take. @param most even */
export function attentionBlocks({ groupIds, parentIds }: TokenSegments, most: number): AttentionBlocks {
  const rows = 2 * Math.ceil(groupIds.length / Math.ceil(groupIds.length / most) / 2)
  const count = Math.ceil(groupIds.length / rows)
  const starts = Array.from({ length: count }, (_, block) => block * rows)
  const keys = starts.map((start) => keysOf({ groupIds, parentIds }, start, Math.min(start + rows, groupIds.length)))
  return { starts, rows, keys }
}

/** Pairs of a query and a key that are computed, masked ones included. */
export function attentionPairs({ rows, keys }: AttentionBlocks): number {
  return keys.reduce((sum, { length }) => sum + rows * length, 0)
}

function keysOf({ groupIds, parentIds }: TokenSegments, start: number, end: number): Int32Array {
  const seen = new Set<number>()
  for (let t = start; t < end; t += 1) seen.add(groupIds[t] ?? -1).add(parentIds[t] ?? -1)
  const keys: number[] = []
  for (let t = 0; t < end; t += 1) if (seen.has(groupIds[t] ?? -1)) keys.push(t)
  return Int32Array.from(keys)
}
