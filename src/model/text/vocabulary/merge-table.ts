/**
 * The merges of a BPE vocabulary: a pair of token ids → its rank and the id of the merged token.
 *
 * An open-addressing hash over typed arrays: a vocabulary of 500,000 merges takes 16 MB where a Map of string pairs
 * would take ten times that, and a lookup allocates nothing.
 */

export class MergeTable {
  readonly #mask: number
  readonly #left: Int32Array
  readonly #right: Int32Array
  readonly #rank: Int32Array
  readonly #merged: Int32Array

  /** @param capacity upper bound of the number of pairs that will be added */
  constructor(capacity: number) {
    let size = 16
    while (size < capacity * 2) size *= 2
    this.#mask = size - 1
    this.#left = new Int32Array(size).fill(-1)
    this.#right = new Int32Array(size)
    this.#rank = new Int32Array(size)
    this.#merged = new Int32Array(size)
  }

  /** Adds a pair; the first rank given to a pair stays. */
  add(left: number, right: number, rank: number, merged: number): void {
    const slot = this.#slot(left, right)
    if (this.#left[slot] !== -1) return
    this.#left[slot] = left
    this.#right[slot] = right
    this.#rank[slot] = rank
    this.#merged[slot] = merged
  }

  /** Slot of the pair for `rankAt` and `mergedAt`, or -1 when the pair does not merge. */
  find(left: number, right: number): number {
    const slot = this.#slot(left, right)
    return this.#left[slot] === -1 ? -1 : slot
  }

  /** Rank of the pair in a slot; lower merges first. */
  rankAt(slot: number): number {
    return this.#rank[slot] ?? -1
  }

  /** Token that the pair in a slot becomes. */
  mergedAt(slot: number): number {
    return this.#merged[slot] ?? -1
  }

  #slot(left: number, right: number): number {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> 0
    slot = (slot ^ (slot >>> 15)) & this.#mask
    while (this.#left[slot] !== -1 && (this.#left[slot] !== left || this.#right[slot] !== right)) {
      slot = (slot + 1) & this.#mask
    }
    return slot
  }
}
