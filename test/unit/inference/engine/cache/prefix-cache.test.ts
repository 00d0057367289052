/**
 * The prefix cache finds what was computed, shares nothing across salts, and keeps to its budget.
 */
import { describe, expect, it } from 'vitest'
import { PREFIX_BLOCK_TOKENS, PrefixCache } from '#inference/engine/cache/prefix-cache.js'

const SCOPE = { adapterDigest: null, cacheSalt: null }
const BLOCK_BYTES = 4 * 8

const ids = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i)
const block = (start: number): Float32Array => new Float32Array(8).fill(start)

describe('prefix cache', () => {
  it('finds the longest run of full blocks and leaves a token to compute', () => {
    const cache = new PrefixCache(1e6)
    cache.store(ids(40), SCOPE, block)
    expect(cache.match(ids(50), SCOPE).map((kv) => kv[0])).toEqual([0, 16])
    expect(cache.match(ids(33), SCOPE)).toHaveLength(2)
    expect(cache.match(ids(32), SCOPE)).toHaveLength(1)
    expect(cache.match(ids(16), SCOPE)).toHaveLength(0)
  })

  it('tells prefixes apart by every token before the block', () => {
    const cache = new PrefixCache(1e6)
    cache.store(ids(48), SCOPE, block)
    const other = ids(48)
    other[3] = 999
    expect(cache.match(other, SCOPE)).toHaveLength(0)
    const later = ids(48)
    later[20] = 999
    expect(cache.match(later, SCOPE)).toHaveLength(1)
  })

  it('shares nothing across adapters and salts', () => {
    const cache = new PrefixCache(1e6)
    cache.store(ids(32), { adapterDigest: 'a', cacheSalt: 's' }, block)
    expect(cache.match(ids(40), { adapterDigest: 'a', cacheSalt: 's' })).toHaveLength(2)
    for (const scope of [
      SCOPE,
      { adapterDigest: 'b', cacheSalt: 's' },
      { adapterDigest: 'a', cacheSalt: 't' },
      { adapterDigest: 'a s', cacheSalt: null },
    ]) {
      expect(cache.match(ids(40), scope)).toHaveLength(0)
    }
  })

  it('reads missing blocks only', () => {
    const cache = new PrefixCache(1e6)
    const read: number[] = []
    const reader = (start: number): Float32Array => {
      read.push(start)
      return block(start)
    }
    cache.store(ids(32), SCOPE, reader)
    cache.store(ids(64), SCOPE, reader)
    expect(read).toEqual([0, 16, 32, 48])
  })

  it('drops the least recently used blocks, children before parents', () => {
    const cache = new PrefixCache(4 * BLOCK_BYTES)
    cache.store(ids(32), SCOPE, block)
    cache.store(ids(32, 1000), SCOPE, block)
    cache.match(ids(40), SCOPE)
    cache.store(ids(16, 2000), SCOPE, block)
    expect(cache.match(ids(40), SCOPE)).toHaveLength(2)
    expect(cache.match(ids(40, 1000), SCOPE)).toHaveLength(1)
    expect(cache.sizeBytes).toBeLessThanOrEqual(4 * BLOCK_BYTES)
  })

  it('keeps to its budget when one sequence exceeds it', () => {
    const cache = new PrefixCache(2 * BLOCK_BYTES)
    cache.store(ids(160), SCOPE, block)
    expect(cache.sizeBytes).toBe(2 * BLOCK_BYTES)
    expect(cache.match(ids(160), SCOPE)).toHaveLength(2)
  })

  it('stores nothing with a budget of 0', () => {
    const cache = new PrefixCache(0)
    cache.store(ids(PREFIX_BLOCK_TOKENS), SCOPE, block)
    expect(cache.sizeBytes).toBe(0)
  })

  it('forgets an adapter', () => {
    const cache = new PrefixCache(1e6)
    const scope = { adapterDigest: 'a', cacheSalt: 's' }
    cache.store(ids(32), scope, block)
    cache.store(ids(32), SCOPE, block)
    cache.forgetAdapter('a')
    expect(cache.match(ids(40), scope)).toHaveLength(0)
    expect(cache.match(ids(40), SCOPE)).toHaveLength(2)
  })
})
