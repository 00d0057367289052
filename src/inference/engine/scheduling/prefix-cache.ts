/**
 * Finds what was computed before: keys and values of prompts and answers, by the tokens themselves.
 *
 * It holds runs, sequences that do not change and that requests work on too, and copies nothing. Runs are found in blocks of 16
 * tokens: a block's key is its parent block and its own ids, so a lookup walks the prompt block by block; the root is salted by
 * adapter and cache salt, so nothing is shared across either. A prompt that is known to its last token is found whole, with the
 * row its first answer token is sampled from. Least recently used runs leave first; who works on one keeps it alive.
 */

import type { LogitsRow } from '../logits-row.js'
import type { KvSequence } from '../model-runner.js'

/** Tokens per block; `cached_tokens` of an answer is a multiple of it. */
export const PREFIX_BLOCK_TOKENS = 16

/** What a prefix was computed with. */
export interface PrefixScope {
  readonly adapterDigest: string | null
  readonly cacheSalt: string | null
}

/** Tokens [start, start + 16) of a sequence. */
export interface PrefixBlock {
  readonly sequence: KvSequence
  readonly start: number
}

/** A prompt computed to its end. */
export interface ComputedPrompt {
  /** Exactly the prompt; nobody changes it any more. */
  readonly sequence: KvSequence
  /** The last position's row. */
  readonly row: LogitsRow
}

interface Run {
  readonly sequence: KvSequence
  readonly adapterDigest: string | null
  readonly sizeBytes: number
  /** Blocks that lead here; a newer run with the same tokens takes them over. */
  readonly blocks: Set<Block>
  end: { readonly key: string; readonly prompt: ComputedPrompt } | null
}

interface Block {
  readonly id: number
  readonly key: string
  run: Run
  start: number
}

/** A bounded store of runs. */
export class PrefixCache {
  readonly #blocks = new Map<string, Block>()
  readonly #ends = new Map<string, Run>()
  /** In order of use. */
  readonly #runs = new Set<Run>()
  #maxBytes: number
  #sizeBytes = 0
  #nextId = 1

  /** @param maxBytes memory for keys and values; 0 turns the cache off */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /** Changes the bound, at once. */
  limit(maxBytes: number): void {
    this.#maxBytes = maxBytes
    this.#evict()
  }

  /**
   * The blocks that start `tokenIds`, longest run first to last.
   *
   * At least one token is left over: the last prompt token must be computed to get logits.
   */
  match(tokenIds: readonly number[], scope: PrefixScope): readonly PrefixBlock[] {
    const found = this.#walk(tokenIds, scope, tokenIds.length - 1)
    for (const block of found) this.#touch(block.run)
    return found.map(({ run, start }) => ({ sequence: run.sequence, start }))
  }

  /** The prompt that is exactly `tokenIds`. */
  findPrompt(tokenIds: readonly number[], scope: PrefixScope): ComputedPrompt | null {
    const run = this.#ends.get(this.#endKey(tokenIds, scope))
    if (run?.end === null || run === undefined) return null
    this.#touch(run)
    return run.end.prompt
  }

  /**
   * Makes what was computed findable.
   *
   * @param tokenIds the whole sequence from its first token
   * @param source holds the tokens from `from` (a multiple of 16) on; must not change any more
   */
  store(
    tokenIds: readonly number[],
    scope: PrefixScope,
    source: { readonly sequence: KvSequence; readonly from: number; readonly prompt?: ComputedPrompt },
  ): void {
    const { sequence, from, prompt } = source
    const rowBytes = (prompt?.row.logprobs?.byteLength ?? 0) + (prompt?.row.logits?.byteLength ?? 0)
    const sizeBytes = sequence.sizeBytes + rowBytes
    if (sizeBytes > this.#maxBytes) return
    const before = this.#walk(tokenIds, scope, from)
    if (before.length * PREFIX_BLOCK_TOKENS < from) return
    const run: Run = { sequence, adapterDigest: scope.adapterDigest, sizeBytes, blocks: new Set(), end: null }
    this.#runs.add(run)
    this.#sizeBytes += sizeBytes
    let parent = before.at(-1)?.id.toString() ?? rootKey(scope)
    for (let at = from; at + PREFIX_BLOCK_TOKENS <= tokenIds.length; at += PREFIX_BLOCK_TOKENS) {
      const key = blockKey(parent, tokenIds, at)
      const block = this.#blocks.get(key) ?? { id: this.#nextId++, key, run, start: at - from }
      this.#take(block, run, at - from)
      parent = String(block.id)
    }
    if (prompt !== undefined) {
      const key = this.#endKey(tokenIds, scope)
      this.#dropEnd(this.#ends.get(key))
      run.end = { key, prompt }
      this.#ends.set(key, run)
    }
    this.#dropIfUseless(run)
    this.#evict()
  }

  /** Drops everything computed with an adapter. */
  forgetAdapter(digest: string): void {
    for (const run of [...this.#runs]) if (run.adapterDigest === digest) this.#drop(run)
  }

  /** The blocks that start `tokenIds` within its first `limit` tokens. */
  #walk(tokenIds: readonly number[], scope: PrefixScope, limit: number): readonly Block[] {
    const found: Block[] = []
    let parent = rootKey(scope)
    for (let at = 0; at + PREFIX_BLOCK_TOKENS <= limit; at += PREFIX_BLOCK_TOKENS) {
      const block = this.#blocks.get(blockKey(parent, tokenIds, at))
      if (block === undefined) break
      found.push(block)
      parent = String(block.id)
    }
    return found
  }

  #endKey(tokenIds: readonly number[], scope: PrefixScope): string {
    const found = this.#walk(tokenIds, scope, tokenIds.length)
    const parent = found.at(-1)?.id.toString() ?? rootKey(scope)
    return `${parent} end ${tokenIds.slice(found.length * PREFIX_BLOCK_TOKENS).join(',')}`
  }

  #take(block: Block, run: Run, start: number): void {
    const former = block.run
    former.blocks.delete(block)
    block.run = run
    block.start = start
    run.blocks.add(block)
    this.#blocks.set(block.key, block)
    if (former !== run) this.#dropIfUseless(former)
  }

  #dropIfUseless(run: Run): void {
    if (run.blocks.size === 0 && run.end === null) this.#drop(run)
  }

  #dropEnd(run: Run | undefined): void {
    if (run === undefined) return
    run.end = null
    this.#dropIfUseless(run)
  }

  #touch(run: Run): void {
    this.#runs.delete(run)
    this.#runs.add(run)
  }

  #evict(): void {
    for (const run of this.#runs) {
      if (this.#sizeBytes <= this.#maxBytes) return
      this.#drop(run)
    }
  }

  #drop(run: Run): void {
    if (!this.#runs.delete(run)) return
    for (const block of run.blocks) this.#blocks.delete(block.key)
    if (run.end !== null) this.#ends.delete(run.end.key)
    this.#sizeBytes -= run.sizeBytes
  }
}

function rootKey(scope: PrefixScope): string {
  return `root ${JSON.stringify(scope.adapterDigest)} ${JSON.stringify(scope.cacheSalt)}`
}

function blockKey(parent: string, tokenIds: readonly number[], at: number): string {
  return `${parent} ${tokenIds.slice(at, at + PREFIX_BLOCK_TOKENS).join(',')}`
}
