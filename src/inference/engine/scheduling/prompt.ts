/**
 * One prompt on its way into the cache, for all requests that begin with exactly these tokens.
 *
 * Its keys and values are a run of their own, which becomes the group's prompt when the last token is computed and is never
 * copied for the choices that go on from it.
 */

import type { AdapterLayout } from '../runner/adapter-layout.js'
import { KvCache } from '../runner/kv-cache.js'
import { type KvNewRows, type KvShape, roundedCapacity } from '../runner/kv-shape.js'
import type { ActiveRequest } from './active-request.js'
import { PREFIX_BLOCK_TOKENS, type PrefixBlock, type PrefixCache, type PrefixScope } from './prefix-cache.js'

/** Smallest room a prompt is given, and how it grows until the prompt fits: every chunk's attention pays for room not used yet. */
const FIRST_CAPACITY = 128
const GROWTH = 1.25
const PLACE = { row: 0, member: 0 } as const

/** A prompt that is computed earlier and starts with the same tokens. */
export interface PromptSource {
  readonly prompt: Prompt
  /** Tokens in common, a multiple of the block size. */
  readonly tokens: number
}

/** A prompt that is being computed. */
export class Prompt {
  readonly tokenIds: readonly number[]
  readonly scope: PrefixScope
  readonly layout: AdapterLayout | null
  /** Its memory is there from the beginning, so that growth takes none and moves little. */
  readonly cache: KvCache
  /** Requests that wait for it, first the one it was made for. */
  readonly followers: ActiveRequest[]
  /** How many alternatives to report at each prompt position; null: positions are not reported. */
  readonly reported: number | null
  readonly arrivedMs: number
  /** Whose request it was made for. */
  readonly keyId: string
  isBegun = false
  cachedTokens = 0
  /** Milliseconds of one of its tokens, as measured in its last steps; null before the first. */
  msPerToken: number | null = null
  #source: PromptSource | null

  constructor(
    first: ActiveRequest,
    options: { readonly shape: KvShape; readonly arrivedMs: number; readonly source: PromptSource | null },
  ) {
    const { request, layout } = first
    this.tokenIds = request.promptTokenIds
    this.scope = scopeOf(first)
    this.layout = layout
    this.followers = [first]
    this.reported = request.rules.promptLogprobs ?? null
    this.arrivedMs = options.arrivedMs
    this.keyId = first.keyId
    this.#source = options.source
    this.cache = new KvCache(options.shape, 1, { room: { rows: 1, tokens: roundedCapacity(this.tokenIds.length) } })
    this.cache.addRow()
  }

  get position(): number {
    return this.cache.lengthOf(0)
  }

  get remaining(): number {
    return this.tokenIds.length - this.position
  }

  get priority(): number {
    return Math.min(...this.followers.map(({ priority }) => priority))
  }

  /** Whether an earlier prompt is still computing what this one needs too. */
  get isWaiting(): boolean {
    if (this.#source === null) return false
    const { prompt, tokens } = this.#source
    return prompt.followers.length > 0 && prompt.remaining > 0 && prompt.position < tokens
  }

  /** Takes over what is known of the prompt; called once, before its first chunk. */
  begin(prefixes: PrefixCache): void {
    this.isBegun = true
    if (this.reported === null) {
      const blocks = prefixes.match(this.tokenIds, this.scope)
      const known = blocks.length * PREFIX_BLOCK_TOKENS
      const inFlight =
        this.#source === null ? 0 : Math.min(this.#source.tokens, wholeBlocks(this.#source.prompt.position))
      if (this.#source !== null && inFlight > known) this.#copy(this.#source.prompt.cache, 0, inFlight)
      else for (const run of joined(blocks)) this.#copy(run.cache, run.start, run.count)
    }
    this.#source = null
    this.cachedTokens = this.position
    const shared = cacheableTokens(this.tokenIds.length)
    for (const [i, { listener }] of this.followers.entries()) listener.onStarted(i === 0 ? this.cachedTokens : shared)
  }

  /** Another request with the same prompt. */
  follow(active: ActiveRequest): void {
    this.followers.push(active)
    if (this.isBegun) active.listener.onStarted(cacheableTokens(this.tokenIds.length))
  }

  /** Appends computed tokens. */
  append(rows: KvNewRows): void {
    this.#reserve(this.position + rows.count)
    this.cache.append(PLACE, rows)
  }

  #copy(source: KvCache, start: number, count: number): void {
    this.#reserve(this.position + count)
    this.cache.appendFrom(PLACE, source, { ...PLACE, start, count })
  }

  #reserve(tokens: number): void {
    const { capacity } = this.cache
    if (tokens <= capacity) return
    const roomy = Math.max(tokens, Math.ceil(GROWTH * capacity), FIRST_CAPACITY)
    this.cache.setCapacity(Math.min(roomy, this.tokenIds.length))
  }
}

/** What a request's prompt is computed with. */
export function scopeOf({ request }: ActiveRequest): PrefixScope {
  return { adapterDigest: request.adapter?.digest ?? null, cacheSalt: request.cacheSalt }
}

/** Tokens of a prompt that can come from a cache: whole blocks, and never the last token. */
export function cacheableTokens(promptLength: number): number {
  return wholeBlocks(promptLength - 1)
}

function wholeBlocks(tokens: number): number {
  return Math.floor(tokens / PREFIX_BLOCK_TOKENS) * PREFIX_BLOCK_TOKENS
}

/** Blocks that lie one after the other in one cache, as one piece. */
function joined(blocks: readonly PrefixBlock[]): readonly { cache: KvCache; start: number; count: number }[] {
  const pieces: { cache: KvCache; start: number; count: number }[] = []
  for (const { cache, start } of blocks) {
    const last = pieces.at(-1)
    if (last?.cache === cache && last.start + last.count === start) last.count += PREFIX_BLOCK_TOKENS
    else pieces.push({ cache, start, count: PREFIX_BLOCK_TOKENS })
  }
  return pieces
}
