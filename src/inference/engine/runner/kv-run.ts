/**
 * A sequence of the runner: keys and values of one sequence in a cache of its own, whose memory is left to the collector.
 */
import type { KvSequence } from '../model-runner.js'
import { KvCache } from './kv-cache.js'
import { type KvNewRows, type KvShape, roundedCapacity } from './kv-shape.js'

/** Smallest room a sequence is given, and how it grows until it is whole: every chunk's attention pays for room not used yet. */
const FIRST_CAPACITY = 128
const GROWTH = 1.25
const PLACE = { row: 0, member: 0 } as const

/** Row 0 of a cache. */
export class KvRun implements KvSequence {
  readonly cache: KvCache
  readonly #tokens: number

  /** @param tokens that it will have: memory is there from the beginning, so that growth takes none and moves little */
  constructor(shape: KvShape, tokens: number) {
    this.#tokens = tokens
    this.cache = new KvCache(shape, 1, { room: { rows: 1, tokens: roundedCapacity(tokens) } })
    this.cache.addRow()
  }

  get length(): number {
    return this.cache.lengthOf(0)
  }

  get sizeBytes(): number {
    return this.cache.sizeBytes
  }

  copyFrom(source: KvSequence, start: number, count: number): void {
    this.reserve(this.length + count)
    this.cache.appendFrom(PLACE, runOf(source).cache, { ...PLACE, start, count })
  }

  /** Appends new tokens of a step. */
  append(rows: KvNewRows): void {
    this.reserve(this.length + rows.count)
    this.cache.append(PLACE, rows)
  }

  /** Makes room for so many tokens. */
  reserve(tokens: number): void {
    const { capacity } = this.cache
    if (tokens <= capacity) return
    const roomy = Math.max(tokens, Math.ceil(GROWTH * capacity), FIRST_CAPACITY)
    this.cache.setCapacity(Math.max(tokens, Math.min(roomy, this.#tokens)))
  }
}

/** A sequence that this kind of runner has made. */
export function runOf(sequence: KvSequence): KvRun {
  if (sequence instanceof KvRun) return sequence
  throw new Error('the sequence is of another runner')
}
