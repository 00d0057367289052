/**
 * Keys and values of prompt prefixes computed before, in blocks of 16 tokens, found again by the tokens themselves.
 *
 * A block's key is its parent block and its own token ids, so a lookup walks the prompt block by block; the root is
 * salted by adapter and cache salt, so nothing is shared across either. Least recently used blocks leave first; a parent
 * is always touched after its children and therefore outlives them. Holds copies: eviction never touches a running row.
 */
import type { KvBlock } from './kv-cache.js'

/** Tokens per block; `cached_tokens` of an answer is a multiple of it. */
export const PREFIX_BLOCK_TOKENS = 16

interface Block {
  readonly id: number
  readonly key: string
  readonly kv: KvBlock
}

/** What a prefix was computed with. */
export interface PrefixScope {
  readonly adapterDigest: string | null
  readonly cacheSalt: string | null
}

/** A bounded store of prefix blocks. */
export class PrefixCache {
  readonly #blocks = new Map<string, Block>()
  readonly #maxBytes: number
  #sizeBytes = 0
  #nextId = 1

  /** @param maxBytes memory for keys and values; 0 turns the cache off */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  /**
   * The blocks that start `tokenIds`, longest run first to last.
   *
   * At least one token is left over: the last prompt token must be computed to get logits.
   */
  match(tokenIds: readonly number[], scope: PrefixScope): readonly KvBlock[] {
    const found: Block[] = []
    let parent = rootKey(scope)
    while ((found.length + 1) * PREFIX_BLOCK_TOKENS < tokenIds.length) {
      const block = this.#blocks.get(blockKey(parent, tokenIds, found.length))
      if (block === undefined) break
      found.push(block)
      parent = String(block.id)
    }
    for (const block of found.toReversed()) this.#touch(block)
    return found.map((block) => block.kv)
  }

  /**
   * Stores every full block of a sequence that is not stored yet.
   *
   * @param read copies tokens [start, start + 16) out of the live cache; called for missing blocks only
   */
  store(tokenIds: readonly number[], scope: PrefixScope, read: (start: number) => KvBlock): void {
    if (this.#maxBytes <= 0) return
    const path: Block[] = []
    let parent = rootKey(scope)
    for (let index = 0; (index + 1) * PREFIX_BLOCK_TOKENS <= tokenIds.length; index++) {
      const key = blockKey(parent, tokenIds, index)
      let block = this.#blocks.get(key)
      if (block === undefined) {
        const kv = read(index * PREFIX_BLOCK_TOKENS)
        if (this.#sizeBytes + kv.byteLength > this.#maxBytes) this.#evict(kv.byteLength, new Set(path))
        if (this.#sizeBytes + kv.byteLength > this.#maxBytes) break
        block = { id: this.#nextId++, key, kv }
        this.#blocks.set(key, block)
        this.#sizeBytes += kv.byteLength
      }
      path.push(block)
      parent = String(block.id)
    }
    for (const block of path.toReversed()) this.#touch(block)
  }

  /** Drops everything computed with an adapter. */
  forgetAdapter(digest: string): void {
    // Children are keyed by their parent's id only; unreachable ones age out, so removing the roots is enough.
    const prefix = rootPrefix(digest)
    for (const block of [...this.#blocks.values()]) if (block.key.startsWith(prefix)) this.#drop(block)
  }

  #evict(neededBytes: number, kept: ReadonlySet<Block>): void {
    for (const block of [...this.#blocks.values()]) {
      if (this.#sizeBytes + neededBytes <= this.#maxBytes) return
      if (!kept.has(block)) this.#drop(block)
    }
  }

  #touch(block: Block): void {
    this.#blocks.delete(block.key)
    this.#blocks.set(block.key, block)
  }

  #drop(block: Block): void {
    this.#blocks.delete(block.key)
    this.#sizeBytes -= block.kv.byteLength
  }
}

function rootPrefix(adapterDigest: string | null): string {
  return `root ${JSON.stringify(adapterDigest)} `
}

function rootKey(scope: PrefixScope): string {
  return rootPrefix(scope.adapterDigest) + JSON.stringify(scope.cacheSalt)
}

function blockKey(parent: string, tokenIds: readonly number[], index: number): string {
  const start = index * PREFIX_BLOCK_TOKENS
  return `${parent} ${tokenIds.slice(start, start + PREFIX_BLOCK_TOKENS).join(',')}`
}
