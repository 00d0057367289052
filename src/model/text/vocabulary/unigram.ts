/**
 * Unigram models: a word is cut into the tokens whose scores have the largest sum.
 *
 * As the Rust crate `tokenizers` does it (`models/unigram/model.rs`): of equal sums the first cut stays, a character that is no token
 * costs the lowest score less ten, and neighbours of such are one unknown text, which becomes the tokens of its bytes where the model
 * has them (`byte_fallback`, what SentencePiece makes with `--byte_fallback`). Time follows the length of the word times that of its tokens.
 */
import { byteTokenName } from './bpe-encoder.js'

export interface UnigramVocabulary {
  /** Spelling and score by id. */
  readonly tokens: readonly string[]
  readonly scores: readonly number[]
  readonly tokenToId: ReadonlyMap<string, number>
  readonly unknownId: number
  readonly byteFallback: boolean
}

const UNKNOWN_PENALTY = 10
const utf8 = new TextEncoder()

/** Returns a function from a word to its token ids. */
export function createUnigram(vocabulary: UnigramVocabulary): (word: string) => number[] {
  const { scores, unknownId } = vocabulary
  const unknownScore =
    scores.reduce((least, score) => Math.min(least, score), Number.POSITIVE_INFINITY) - UNKNOWN_PENALTY
  const finder = createPrefixFinder(vocabulary.tokens, vocabulary.tokenToId)
  const unknownIds = unknownText(vocabulary)

  return (word) => {
    const size = word.length
    // the best way to end at each position
    const best = new Float64Array(size + 1)
    const from = new Int32Array(size + 1).fill(-1)
    const idAt = new Int32Array(size + 1)
    const reach = (start: number, end: number, id: number, score: number): void => {
      const sum = (best[start] ?? 0) + score
      if (from[end] !== -1 && sum <= (best[end] ?? 0)) return
      best[end] = sum
      from[end] = start
      idAt[end] = id
    }
    for (let at = 0; at < size; ) {
      const width = (word.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
      let isToken = false
      finder(word, at, (end, id) => {
        reach(at, end, id, scores[id] ?? 0)
        if (end - at === width) isToken = true
      })
      if (!isToken) reach(at, at + width, unknownId, unknownScore)
      at += width
    }
    return read(word, from, idAt)
  }

  /** Back from the end; unknown neighbours are one text. */
  function read(word: string, from: Int32Array, idAt: Int32Array): number[] {
    const reversed: number[] = []
    let unknownEnd = -1
    const flush = (start: number): void => {
      if (unknownEnd === -1) return
      const ids = unknownIds(word.slice(start, unknownEnd))
      for (let i = ids.length - 1; i >= 0; i--) reversed.push(ids[i] ?? unknownId)
      unknownEnd = -1
    }
    for (let end = word.length; end > 0; ) {
      const id = idAt[end] ?? unknownId
      if (id !== unknownId) {
        flush(end)
        reversed.push(id)
      } else if (unknownEnd === -1) unknownEnd = end
      end = from[end] ?? 0
      if (end === 0) flush(0)
    }
    return reversed.reverse()
  }
}

function unknownText({ tokenToId, unknownId, byteFallback }: UnigramVocabulary): (text: string) => readonly number[] {
  const byteIds = Array.from({ length: 256 }, (_, byte) =>
    byteFallback ? tokenToId.get(byteTokenName(byte)) : undefined,
  )
  return (text) => {
    const id = tokenToId.get(text)
    if (id !== undefined) return [id]
    const ids = Array.from(utf8.encode(text), (byte) => byteIds[byte])
    return ids.every((each) => each !== undefined) ? ids : [unknownId]
  }
}

/** Finds the tokens that a text has from a place on, the shortest first: sorted spellings, narrowed letter by letter. */
function createPrefixFinder(tokens: readonly string[], tokenToId: ReadonlyMap<string, number>) {
  const sorted = [...new Set(tokens)].filter((token) => token !== '').sort((a, b) => (a < b ? -1 : 1))
  const ids = Int32Array.from(sorted, (token) => tokenToId.get(token) ?? -1)
  /** The first of those from `low` to `high` whose unit at a depth is at least `unit`. */
  const firstFrom = (low: number, high: number, depth: number, unit: number): number => {
    let [start, end] = [low, high]
    while (start < end) {
      const middle = (start + end) >>> 1
      const code = (sorted[middle] as string).charCodeAt(depth)
      // a spelling that ends here is before all others
      if (Number.isNaN(code) || code < unit) start = middle + 1
      else end = middle
    }
    return start
  }
  return (text: string, at: number, found: (end: number, id: number) => void): void => {
    let [low, high] = [0, sorted.length]
    for (let depth = 0; at + depth < text.length; depth++) {
      const unit = text.charCodeAt(at + depth)
      low = firstFrom(low, high, depth, unit)
      high = firstFrom(low, high, depth, unit + 1)
      if (low === high) return
      if ((sorted[low] as string).length === depth + 1) found(at + depth + 1, ids[low] ?? -1)
    }
  }
}
