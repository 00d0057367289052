/**
 * Length of the longest common subsequence of two sequences, 30 places of the first at a time (Hyyrö 2004,
 * "Bit-parallel LCS-length computation revisited"): sums of 30 bits are small integers to V8. Knows no text: elements
 * are compared by identity.
 */

/** Gives others a turn between pieces of long work, so that no text holds up a server. */
export interface Work {
  /** @param operations that were done since the last call */
  did(operations: number): Promise<void> | undefined
}

/** Places of a word, and all of them set. */
const [BITS, FULL] = [30, 2 ** 30 - 1]

/** Operations between two turns of others: some ten milliseconds. */
const PIECE = 10_000_000

export function createWork(): Work {
  let done = 0
  return {
    did: (operations) => {
      done += operations
      if (done < PIECE) return undefined
      done = 0
      return new Promise((resolve) => setImmediate(resolve))
    },
  }
}

/** One sequence, made ready to be compared with many. */
export interface Comparable<T> {
  readonly length: number
  /** Operations of one element of the other. */
  readonly words: number
  /** @param onLength told of the length after each element */
  common(others: readonly T[], from: number, to: number, onLength?: (length: number, end: number) => void): number
}

export function comparable<T>(elements: readonly T[]): Comparable<T> {
  const { length } = elements
  const words = Math.ceil(length / BITS)
  const places = new Map<T, Int32Array>()
  for (const [i, element] of elements.entries()) {
    const mask = places.get(element) ?? new Int32Array(words)
    places.set(element, mask)
    const word = Math.floor(i / BITS)
    mask[word] = (mask[word] as number) | (1 << (i % BITS))
  }
  const row = new Int32Array(words)
  return {
    length,
    words,
    common(others, from, to, onLength) {
      row.fill(FULL)
      for (let j = from; j < to; j += 1) {
        const mask = places.get(others[j] as T)
        if (mask !== undefined) advance(row, mask)
        onLength?.(countClear(row, length), j + 1)
      }
      return countClear(row, length)
    },
  }
}

function advance(row: Int32Array, mask: Int32Array): void {
  let carry = 0
  for (let w = 0; w < row.length; w += 1) {
    const value = row[w] as number
    const both = value & (mask[w] as number)
    const sum = value + both + carry
    carry = sum >>> BITS
    row[w] = (sum | (value - both)) & FULL
  }
}

/** Places whose bit is clear; those beyond the length do not count. */
function countClear(row: Int32Array, length: number): number {
  let count = 0
  for (let w = 0; w < row.length; w += 1) {
    const isLast = w === row.length - 1 && length % BITS !== 0
    let bits = ~(row[w] as number) & (isLast ? 2 ** (length % BITS) - 1 : FULL)
    bits -= (bits >>> 1) & 0x55555555
    bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
    count += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
  }
  return count
}
