/**
 * The prefix cache finds what was computed, shares nothing across salts, and keeps to its budget.
 */
import { describe, expect, it } from 'vitest'
import { KvRun } from '#inference/engine/runner/kv-run.js'
import { PREFIX_BLOCK_TOKENS, PrefixCache } from '#inference/engine/scheduling/prefix-cache.js'

const SCOPE = { adapterDigest: null, cacheSalt: null }
const SHAPE = { layerCount: 1, kvHeadCount: 1, headSize: 2 }
const TOKEN_BYTES = 16

const ids = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i)

/** A run of so many tokens. */
function runOf(count: number): KvRun {
  const run = new KvRun(SHAPE, count)
  run.reserve(count)
  return run
}

function promptOf(count: number) {
  const sequence = runOf(count)
  return { sequence, row: { logprobs: new Float32Array(1), logits: null, probabilities: null } }
}

describe('prefix cache', () => {
  it('finds the longest run of full blocks and leaves a token to compute', () => {
    const cache = new PrefixCache(1e6)
    const run = runOf(40)
    cache.store(ids(40), SCOPE, { sequence: run, from: 0 })
    expect(cache.match(ids(50), SCOPE)).toEqual([
      { sequence: run, start: 0 },
      { sequence: run, start: 16 },
    ])
    expect(cache.match(ids(33), SCOPE)).toHaveLength(2)
    expect(cache.match(ids(32), SCOPE)).toHaveLength(1)
    expect(cache.match(ids(16), SCOPE)).toHaveLength(0)
  })

  it('finds an answer after its prompt, from where its run starts', () => {
    const cache = new PrefixCache(1e6)
    const [prompt, answer] = [runOf(40), runOf(30)]
    cache.store(ids(62), SCOPE, { sequence: answer, from: 32 })
    expect(cache.match(ids(70), SCOPE)).toHaveLength(0)
    cache.store(ids(40), SCOPE, { sequence: prompt, from: 0 })
    cache.store(ids(62), SCOPE, { sequence: answer, from: 32 })
    expect(cache.match(ids(70), SCOPE)).toEqual([
      { sequence: prompt, start: 0 },
      { sequence: prompt, start: 16 },
      { sequence: answer, start: 0 },
    ])
  })

  it('finds a prompt whole', () => {
    const cache = new PrefixCache(1e6)
    const prompt = promptOf(40)
    cache.store(ids(40), SCOPE, { sequence: prompt.sequence, from: 0, prompt })
    expect(cache.findPrompt(ids(40), SCOPE)).toBe(prompt)
    expect(cache.findPrompt(ids(39), SCOPE)).toBeNull()
    expect(cache.findPrompt(ids(41), SCOPE)).toBeNull()
    expect(cache.findPrompt(ids(40), { ...SCOPE, cacheSalt: 'x' })).toBeNull()
    const short = promptOf(3)
    cache.store(ids(3), SCOPE, { sequence: short.sequence, from: 0, prompt: short })
    expect(cache.findPrompt(ids(3), SCOPE)).toBe(short)
  })

  it('tells prefixes apart by every token before the block', () => {
    const cache = new PrefixCache(1e6)
    cache.store(ids(48), SCOPE, { sequence: runOf(48), from: 0 })
    const other = ids(48)
    other[3] = 999
    expect(cache.match(other, SCOPE)).toHaveLength(0)
    const later = ids(48)
    later[20] = 999
    expect(cache.match(later, SCOPE)).toHaveLength(1)
  })

  it('shares nothing across adapters and salts', () => {
    const cache = new PrefixCache(1e6)
    cache.store(ids(32), { adapterDigest: 'a', cacheSalt: 's' }, { sequence: runOf(32), from: 0 })
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

  it('lets a longer run take over, so that what it repeats is held once', () => {
    const cache = new PrefixCache(1e6)
    const [short, long] = [runOf(32), runOf(64)]
    cache.store(ids(32), SCOPE, { sequence: short, from: 0 })
    cache.store(ids(64), SCOPE, { sequence: long, from: 0 })
    expect(cache.match(ids(70), SCOPE).map((block) => block.sequence)).toEqual([long, long, long, long])
    expect(cache.sizeBytes).toBe(64 * TOKEN_BYTES)
  })

  it('drops the least recently used runs', () => {
    const cache = new PrefixCache(80 * TOKEN_BYTES)
    cache.store(ids(32), SCOPE, { sequence: runOf(32), from: 0 })
    cache.store(ids(32, 1000), SCOPE, { sequence: runOf(32), from: 0 })
    cache.match(ids(40), SCOPE)
    cache.store(ids(32, 2000), SCOPE, { sequence: runOf(32), from: 0 })
    expect(cache.match(ids(40), SCOPE)).toHaveLength(2)
    expect(cache.match(ids(40, 1000), SCOPE)).toHaveLength(0)
    expect(cache.sizeBytes).toBe(64 * TOKEN_BYTES)
    cache.limit(40 * TOKEN_BYTES)
    expect(cache.sizeBytes).toBe(32 * TOKEN_BYTES)
  })

  it('stores nothing that exceeds its budget', () => {
    const cache = new PrefixCache(2 * PREFIX_BLOCK_TOKENS * TOKEN_BYTES)
    cache.store(ids(160), SCOPE, { sequence: runOf(160), from: 0 })
    expect(cache.sizeBytes).toBe(0)
    const off = new PrefixCache(0)
    off.store(ids(16), SCOPE, { sequence: runOf(16), from: 0 })
    expect(off.sizeBytes).toBe(0)
  })

  it('forgets an adapter', () => {
    const cache = new PrefixCache(1e6)
    const scope = { adapterDigest: 'a', cacheSalt: 's' }
    cache.store(ids(32), scope, { sequence: runOf(32), from: 0 })
    cache.store(ids(32), SCOPE, { sequence: runOf(32), from: 0 })
    cache.forgetAdapter('a')
    expect(cache.match(ids(40), scope)).toHaveLength(0)
    expect(cache.match(ids(40), SCOPE)).toHaveLength(2)
  })
})
