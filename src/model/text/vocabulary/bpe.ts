/**
 * Byte-pair merging of one word: starting symbols in, token ids out.
 *
 * Merges the pair of lowest rank first, the leftmost one on a tie, until no pair merges. SentencePiece vocabularies use
 * the same procedure with ranks made from scores. Time is O(n²) for short words, where it is fastest, and O(n log n)
 * above `SHORT_WORD` symbols. A word above `MAX_WORD_SYMBOLS` is merged in pieces of that size so that memory stays
 * bounded on hostile input; the text that the tokens stand for is the same.
 */
import type { MergeTable } from './merge-table.js'

const SHORT_WORD = 40
const MAX_WORD_SYMBOLS = 2 ** 20

/**
 * Merges starting symbols into tokens.
 *
 * @param symbols token ids of the starting symbols; ids that no merge knows stay as they are. Overwritten.
 * @param merges the vocabulary's merges
 * @param out receives the resulting token ids
 */
export function mergeSymbols(symbols: number[], merges: MergeTable, out: number[]): void {
  if (symbols.length <= SHORT_WORD) {
    mergeShort(symbols, merges, out)
    return
  }
  for (let start = 0; start < symbols.length; start += MAX_WORD_SYMBOLS) {
    mergeLong(symbols.slice(start, start + MAX_WORD_SYMBOLS), merges, out)
  }
}

function mergeShort(symbols: number[], merges: MergeTable, out: number[]): void {
  let length = symbols.length
  const slots: number[] = []
  for (let i = 0; i + 1 < length; i++) slots.push(merges.find(symbols[i] ?? -1, symbols[i + 1] ?? -1))
  for (;;) {
    let best = -1
    let bestRank = Number.POSITIVE_INFINITY
    for (let i = 0; i + 1 < length; i++) {
      const slot = slots[i] ?? -1
      if (slot === -1) continue
      const rank = merges.rankAt(slot)
      if (rank < bestRank) {
        bestRank = rank
        best = i
      }
    }
    if (best === -1) break
    symbols[best] = merges.mergedAt(slots[best] ?? -1)
    symbols.copyWithin(best + 1, best + 2, length)
    slots.copyWithin(best, best + 1, length - 1)
    length--
    if (best > 0) slots[best - 1] = merges.find(symbols[best - 1] ?? -1, symbols[best] ?? -1)
    if (best + 1 < length) slots[best] = merges.find(symbols[best] ?? -1, symbols[best + 1] ?? -1)
  }
  for (let i = 0; i < length; i++) out.push(symbols[i] ?? -1)
}

function mergeLong(symbols: readonly number[], merges: MergeTable, out: number[]): void {
  const count = symbols.length
  const ids = Int32Array.from(symbols)
  const next = new Int32Array(count)
  const previous = new Int32Array(count)
  const heap = new MinHeap(2 * count)
  /** Heap key: rank first, then position. Both are integers, and rank · MAX_WORD_SYMBOLS stays below 2^53. */
  const pushPair = (left: number): void => {
    const right = next[left] ?? -1
    if (right === -1) return
    const slot = merges.find(ids[left] ?? -1, ids[right] ?? -1)
    if (slot !== -1) heap.push(merges.rankAt(slot) * MAX_WORD_SYMBOLS + left)
  }
  for (let i = 0; i < count; i++) {
    next[i] = i + 1 < count ? i + 1 : -1
    previous[i] = i - 1
  }
  for (let i = 0; i < count; i++) pushPair(i)
  while (heap.size > 0) {
    const key = heap.pop()
    const left = key % MAX_WORD_SYMBOLS
    const right = next[left] ?? -1
    if (right === -1 || ids[left] === -1) continue
    const slot = merges.find(ids[left] ?? -1, ids[right] ?? -1)
    // Stale entry: one of the two symbols has been merged away since it was pushed.
    if (slot === -1 || merges.rankAt(slot) * MAX_WORD_SYMBOLS + left !== key) continue
    ids[left] = merges.mergedAt(slot)
    ids[right] = -1
    const after = next[right] ?? -1
    next[left] = after
    if (after !== -1) previous[after] = left
    const before = previous[left] ?? -1
    if (before !== -1) pushPair(before)
    pushPair(left)
  }
  for (let i = 0; i !== -1; i = next[i] ?? -1) out.push(ids[i] ?? -1)
}

/** Binary heap of numbers, smallest first, over one typed array that never grows. */
class MinHeap {
  size = 0
  readonly #keys: Float64Array

  constructor(capacity: number) {
    this.#keys = new Float64Array(capacity)
  }

  push(key: number): void {
    const keys = this.#keys
    let at = this.size++
    while (at > 0) {
      const parent = (at - 1) >> 1
      const parentKey = keys[parent] ?? 0
      if (parentKey <= key) break
      keys[at] = parentKey
      at = parent
    }
    keys[at] = key
  }

  pop(): number {
    const keys = this.#keys
    const top = keys[0] ?? 0
    const key = keys[--this.size] ?? 0
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= this.size) break
      if (child + 1 < this.size && (keys[child + 1] ?? 0) < (keys[child] ?? 0)) child++
      const childKey = keys[child] ?? 0
      if (childKey >= key) break
      keys[at] = childKey
      at = child
    }
    keys[at] = key
    return top
  }
}
