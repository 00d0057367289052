/**
 * The dense buffers behind a cache: one per layer and side, packed as [row, K, member, C, D] for one capacity C.
 *
 * Buffers may hold more rows and tokens than are laid out. Each is taken when it is first asked for: zeroing all at once would hold up
 * the step that takes them by as much as several others. Knows nothing of how many tokens of a member count.
 */
import type { KvMemory } from './kv-memory.js'
import type { KvNewRows, KvPlace, KvRoom, KvShape } from './kv-shape.js'

/** A span of a member's tokens in another layout. */
export interface KvSpan {
  readonly layout: KvLayout
  readonly place: KvPlace
  readonly start: number
  readonly count: number
}

export interface KvLayoutOptions {
  readonly width: number
  /** Rows and tokens there is memory for. */
  readonly held: KvRoom
  /** Tokens laid out. */
  readonly capacity: number
  /** Where buffers are taken; null: they are parts of one array, which is left to the collector. */
  readonly memory: KvMemory | null
}

export class KvLayout {
  readonly shape: KvShape
  readonly width: number
  readonly #memory: KvMemory | null
  readonly #sides: (Float32Array | null)[]
  /** Numbers of one side. */
  readonly #size: number
  #capacity: number

  constructor(shape: KvShape, { width, held, capacity, memory }: KvLayoutOptions) {
    this.shape = shape
    this.width = width
    this.#memory = memory
    this.#capacity = capacity
    this.#size = held.rows * shape.kvHeadCount * width * held.tokens * shape.headSize
    const sideCount = 2 * shape.layerCount
    // one large block is a mapping of its own, which goes back to the system when it is freed; sixty small ones leave holes
    const whole = memory === null ? new Float32Array(sideCount * this.#size) : null
    this.#sides = Array.from(
      { length: sideCount },
      (_, i) => whole?.subarray(i * this.#size, (i + 1) * this.#size) ?? null,
    )
  }

  /** Token columns every member has, C. */
  get capacity(): number {
    return this.#capacity
  }

  /** Numbers of one row of one side. */
  get rowSize(): number {
    return this.headsPerRow * this.#capacity * this.shape.headSize
  }

  get headsPerRow(): number {
    return this.shape.kvHeadCount * this.width
  }

  /** Whether there is memory for so much. */
  canHold(rows: number, capacity: number): boolean {
    return rows * this.headsPerRow * capacity * this.shape.headSize <= this.#size
  }

  /** Whether there is memory for more than four times as much. */
  isWasteful(rows: number, capacity: number): boolean {
    return this.#size > 4 * rows * this.headsPerRow * capacity * this.shape.headSize
  }

  side(index: number): Float32Array {
    const known = this.#sides[index]
    if (known === undefined) throw new Error(`kv cache has no side ${index}`)
    if (known !== null) return known
    // without memory of its own every side was made at once
    if (this.#memory === null) throw new Error(`kv cache gave side ${index} back`)
    const side = this.#memory.take(this.#size)
    this.#sides[index] = side
    return side
  }

  /** Makes sure that every buffer can be taken, so that nothing fails midway. */
  reserve(): void {
    this.#memory?.reserve(this.#sides.filter((side) => side === null).length, this.#size)
  }

  /** Gives a buffer back where it was taken; then it must not be asked for again. */
  releaseSide(index: number): void {
    const side = this.#sides[index]
    if (this.#memory === null || side === undefined) return
    if (side !== null) this.#memory.give(side)
    delete this.#sides[index]
  }

  /** Gives all buffers back. */
  release(): void {
    for (const index of this.#sides.keys()) this.releaseSide(index)
  }

  offset({ row, member }: KvPlace, k: number): number {
    return ((row * this.shape.kvHeadCount + k) * this.width + member) * this.#capacity * this.shape.headSize
  }

  /** Lays the first rows out for another capacity, in the memory there is; what is new is zero. */
  relay(rows: number, capacity: number): void {
    const { headSize } = this.shape
    const [old, fresh] = [this.#capacity * headSize, capacity * headSize]
    const kept = Math.min(old, fresh)
    const heads = rows * this.headsPerRow
    for (const side of this.#sides) {
      if (side === null) continue
      if (fresh > old) {
        for (let head = heads - 1; head >= 0; head--) {
          side.copyWithin(head * fresh, head * old, head * old + kept)
          side.fill(0, head * fresh + kept, (head + 1) * fresh)
        }
      } else {
        for (let head = 0; head < heads; head++) side.copyWithin(head * fresh, head * old, head * old + kept)
        side.fill(0, heads * fresh, heads * old)
      }
    }
    this.#capacity = capacity
  }

  /** Takes one side of the first rows from another layout; this one must be zero there. */
  takeSide(index: number, source: KvLayout, rows: number): void {
    const { headSize } = this.shape
    const [from, to] = [source.side(index), this.side(index)]
    const kept = Math.min(source.#capacity, this.#capacity) * headSize
    for (let head = 0; head < rows * this.headsPerRow; head++) {
      const start = head * source.#capacity * headSize
      to.set(from.subarray(start, start + kept), head * this.#capacity * headSize)
    }
  }

  // What follows concerns the first `sides` sides only.

  copyRow(sides: number, from: number, to: number): void {
    const size = this.rowSize
    for (let s = 0; s < sides; s++) this.side(s).copyWithin(to * size, from * size, (from + 1) * size)
  }

  clearRow(sides: number, row: number): void {
    const size = this.rowSize
    for (let s = 0; s < sides; s++) this.side(s).fill(0, row * size, (row + 1) * size)
  }

  clearMember(sides: number, place: KvPlace): void {
    const size = this.#capacity * this.shape.headSize
    for (let s = 0; s < sides; s++) {
      for (let k = 0; k < this.shape.kvHeadCount; k++) {
        const start = this.offset(place, k)
        this.side(s).fill(0, start, start + size)
      }
    }
  }

  /** Writes new tokens of a step behind the first `at` of a member. */
  write(sides: number, place: KvPlace, at: number, rows: KvNewRows): void {
    const { kvHeadCount, headSize } = this.shape
    const width = rows.count * headSize
    for (let s = 0; s < sides; s++) {
      const side = this.side(s)
      for (let k = 0; k < kvHeadCount; k++) {
        const slot = s * rows.slots + (rows.row * kvHeadCount + k) * rows.width + rows.member
        const source = slot * rows.tokens * headSize
        const target = this.offset(place, k) + at * headSize
        // A plain loop beats `set(subarray)` for the one token a decode step appends.
        if (width <= 256) for (let i = 0; i < width; i++) side[target + i] = rows.data[source + i] as number
        else side.set(rows.data.subarray(source, source + width), target)
      }
    }
  }

  /** Writes tokens of another layout behind the first `at` of a member. */
  copy(sides: number, place: KvPlace, at: number, span: KvSpan): void {
    const { kvHeadCount, headSize } = this.shape
    for (let s = 0; s < sides; s++) {
      for (let k = 0; k < kvHeadCount; k++) {
        const begin = span.layout.offset(span.place, k) + span.start * headSize
        const tokens = span.layout.side(s).subarray(begin, begin + span.count * headSize)
        this.side(s).set(tokens, this.offset(place, k) + at * headSize)
      }
    }
  }
}
