/**
 * A bounded cache of words already tokenized; natural text repeats its words.
 *
 * Two generations: when the young one is full it becomes the old one, so a word used since then survives and nothing
 * is ever scanned. Words are copied, because a substring would keep the whole text it was cut from alive.
 */

const GENERATION_SIZE = 16_384
const LONGEST_CACHED_WORD = 48

export class WordCache {
  #young = new Map<string, readonly number[]>()
  #old = new Map<string, readonly number[]>()

  /** Token ids of a word seen before, or undefined. */
  get(word: string): readonly number[] | undefined {
    const young = this.#young.get(word)
    if (young !== undefined) return young
    const old = this.#old.get(word)
    if (old !== undefined) this.set(word, old)
    return old
  }

  /** Remembers the token ids of a word, unless it is too long to be worth it. */
  set(word: string, tokenIds: readonly number[]): void {
    if (word.length > LONGEST_CACHED_WORD) return
    if (this.#young.size >= GENERATION_SIZE) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(word.length > 12 ? Buffer.from(word, 'utf16le').toString('utf16le') : word, tokenIds)
  }
}
