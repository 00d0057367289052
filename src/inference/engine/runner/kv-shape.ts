/**
 * Types shared by caches of keys and values: sizes, places in a cache, and the new rows that a step returns.
 */

/** Sizes of the cache of one decoder. */
export interface KvShape {
  readonly layerCount: number
  readonly kvHeadCount: number
  readonly headSize: number
}

/** Bytes of keys and values of one token in all layers. */
export function kvBytesPerToken(shape: KvShape): number {
  return 2 * shape.layerCount * shape.kvHeadCount * shape.headSize * Float32Array.BYTES_PER_ELEMENT
}

/** Capacities are multiples of this: the graph's sums then do not depend on how much room there is. */
export const CAPACITY_UNIT = 16

/** The smallest capacity for so many tokens. */
export function roundedCapacity(tokens: number): number {
  return Math.ceil(tokens / CAPACITY_UNIT) * CAPACITY_UNIT
}

/** Which sequence of a cache. */
export interface KvPlace {
  readonly row: number
  readonly member: number
}

/** Where new keys and values lie in what a step returns: [2L, slots, tokens, D], slots as [row, K, member]. */
export interface KvNewRows extends KvPlace {
  readonly data: Float32Array
  readonly slots: number
  readonly width: number
  readonly tokens: number
  /** Tokens kept, from the first. */
  readonly count: number
}

/** Rows, and tokens of each, that there is memory for. */
export interface KvRoom {
  readonly rows: number
  readonly tokens: number
}
