/**
 * What has changed in a cache since the one who keeps a copy of it last looked, so that the copy follows without being made anew.
 *
 * Only that something was written is noted: what, is read where it lies when the copy follows. Memory that is laid out for another
 * capacity is no change: whoever follows sees it.
 */
import type { KvPlace } from './kv-shape.js'

/** Tokens [start, start + count) of a member were written. */
export interface KvWritten extends KvPlace {
  readonly start: number
  readonly count: number
}

/** Changes in one go. */
export interface KvDifference {
  /** For each row now: which row it was, or -1 if there was none. Meaningless where the copy has never been made. */
  readonly origins: readonly number[]
  readonly written: readonly KvWritten[]
  /** Whether the copy has never been made. */
  readonly isAnew: boolean
  /** Whether tokens were forgotten that a copy may still hold. */
  readonly isCleared: boolean
}

export class KvChanges {
  #origins: number[] = []
  #written: KvWritten[] = []
  #isAnew = true
  #isCleared = false
  #isReleased = false

  /** Whether the cache is gone. */
  get isReleased(): boolean {
    return this.#isReleased
  }

  addRow(): void {
    this.#origins.push(-1)
  }

  /** `last` took the number `row`. */
  removeRow(row: number, last: number): void {
    this.#origins[row] = this.#origins[last] ?? -1
    this.#origins.length = last
    const rest = row === last ? this.#written : this.#written.filter((each) => each.row !== row)
    this.#written = rest.flatMap((each) => (each.row !== last ? [each] : row === last ? [] : [{ ...each, row }]))
  }

  append(place: KvPlace, start: number, count: number): void {
    const last = this.#written.at(-1)
    if (last !== undefined && last.row === place.row && last.member === place.member) {
      if (last.start + last.count === start) {
        this.#written[this.#written.length - 1] = { ...last, count: last.count + count }
        return
      }
    }
    this.#written.push({ ...place, start, count })
  }

  /** A member has no tokens any more. */
  clear({ row, member }: KvPlace): void {
    this.#isCleared = true
    this.#written = this.#written.filter((each) => each.row !== row || each.member !== member)
  }

  release(): void {
    this.#isReleased = true
  }

  /** What changed since the last call; what comes is counted from here. @param rows that the cache has */
  take(rows: number): KvDifference {
    const difference = {
      origins: this.#origins,
      written: this.#written,
      isAnew: this.#isAnew,
      isCleared: this.#isCleared,
    }
    this.#origins = Array.from({ length: rows }, (_, row) => row)
    this.#written = []
    this.#isAnew = false
    this.#isCleared = false
    return difference
  }
}
