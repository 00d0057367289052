/**
 * One prompt on its way into the cache, for all requests that begin with exactly these tokens.
 *
 * Its keys and values are a sequence of their own, which becomes the group's prompt when the last token is computed and is never
 * copied for the choices that go on from it.
 */

import { minOf } from '#base/util/lists.js'
import type { KvSequence, LoadedAdapter, ModelRunner } from '../model-runner.js'
import type { ActiveRequest } from './active-request.js'
import { PREFIX_BLOCK_TOKENS, type PrefixBlock, type PrefixCache, type PrefixScope } from './prefix-cache.js'

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
  readonly adapter: LoadedAdapter | null
  readonly sequence: KvSequence
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
    options: { readonly runner: ModelRunner; readonly arrivedMs: number; readonly source: PromptSource | null },
  ) {
    const { request, adapter } = first
    this.tokenIds = request.promptTokenIds
    this.scope = scopeOf(first)
    this.adapter = adapter
    this.followers = [first]
    this.reported = request.rules.promptLogprobs ?? null
    this.arrivedMs = options.arrivedMs
    this.keyId = first.keyId
    this.#source = options.source
    this.sequence = options.runner.createSequence(this.tokenIds.length)
  }

  get position(): number {
    return this.sequence.length
  }

  get remaining(): number {
    return this.tokenIds.length - this.position
  }

  get priority(): number {
    return minOf(this.followers.map(({ priority }) => priority))
  }

  /** Whether all who wait for it wait for others first. */
  get isBehind(): boolean {
    return this.followers.every(({ isBehind }) => isBehind)
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
      if (this.#source !== null && inFlight > known) this.sequence.copyFrom(this.#source.prompt.sequence, 0, inFlight)
      else for (const run of joined(blocks)) this.sequence.copyFrom(run.sequence, run.start, run.count)
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

/** Blocks that lie one after the other in one sequence, as one piece. */
function joined(blocks: readonly PrefixBlock[]): readonly { sequence: KvSequence; start: number; count: number }[] {
  const pieces: { sequence: KvSequence; start: number; count: number }[] = []
  for (const { sequence, start } of blocks) {
    const last = pieces.at(-1)
    if (last?.sequence === sequence && last.start + last.count === start) last.count += PREFIX_BLOCK_TOKENS
    else pieces.push({ sequence, start, count: PREFIX_BLOCK_TOKENS })
  }
  return pieces
}
