/**
 * Keys and values of several sequences, owned by JavaScript and handed to the step graph where they lie.
 *
 * One buffer per layer and side, packed as [row, K, member, C, D]: a row is a group of `width` members that continue the same
 * prompt (one member where rows stand for themselves), all rows with one capacity C, because the graph needs dense tensors.
 * Cost grows with C, so it follows the longest member in tight steps. Another capacity moves everything that is there, at once
 * or, so that no step waits for it, a few layers at a time (`prepareCapacity`). Rows are numbered without holes. Memory is taken
 * as rows and capacity need it. Knows nothing of tokens, requests or the graph.
 */
import { maxOf } from '#base/util/lists.js'
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { KvChanges } from './kv-changes.js'
import { KvLayout } from './kv-layout.js'
import type { KvMemory } from './kv-memory.js'
import {
  type KvNewRows,
  type KvPlace,
  type KvRoom,
  type KvShape,
  kvBytesPerToken,
  roundedCapacity,
} from './kv-shape.js'

/** What is moved at once where it lies, without being prepared: some milliseconds. */
const QUICK_BYTES = 24e6

export interface KvCacheOptions {
  /** Memory to start with; it costs nothing before it is used. */
  readonly room?: KvRoom
  /**
   * Memory is taken for twice the tokens as long as that is little: fresh memory is slow to use first, and much of it makes V8
   * collect garbage.
   */
  readonly isGrowing?: boolean
  /** Where memory is taken, and given back to as soon as it is not needed; whoever passes it calls `release` at the end. */
  readonly memory?: KvMemory | null
}

/** Rows are numbered 0..rowCount-1 without holes; removing one moves the last into its place. */
export class KvCache {
  readonly shape: KvShape
  /** Members per row. */
  readonly width: number
  /** Tokens of each member: row * width + member. */
  readonly #lengths: number[] = []
  #layout: KvLayout
  /** What the next capacity needs, as far as it is there: sides [0, moved) are kept like those in use. */
  #next: { readonly layout: KvLayout; moved: number } | null = null
  #views: { rows: number; tensors: readonly HostTensor<'float32'>[] } | null = null
  readonly #isGrowing: boolean
  readonly #memory: KvMemory | null
  #changes: KvChanges | null = null

  constructor(shape: KvShape, width = 1, options: KvCacheOptions = {}) {
    const { room = { rows: 0, tokens: 0 }, isGrowing = false, memory = null } = options
    this.shape = shape
    this.width = width
    this.#isGrowing = isGrowing
    this.#memory = memory
    this.#layout = new KvLayout(shape, { width, held: room, capacity: 0, memory })
  }

  get rowCount(): number {
    return this.#lengths.length / this.width
  }

  /** Token columns every member has in the dense tensors, C. */
  get capacity(): number {
    return this.#layout.capacity
  }

  /** The capacity being prepared, or 0. */
  get preparedCapacity(): number {
    return this.#next?.layout.capacity ?? 0
  }

  /** Tokens of the longest member. */
  get longest(): number {
    return maxOf(this.#lengths, 0)
  }

  /** Memory in use. */
  get sizeBytes(): number {
    const sides =
      2 * this.shape.layerCount * this.#layout.rowSize + (this.#next?.moved ?? 0) * (this.#next?.layout.rowSize ?? 0)
    return this.rowCount * sides * Float32Array.BYTES_PER_ELEMENT
  }

  lengthOf(row: number, member = 0): number {
    const length = this.#lengths[row * this.width + member]
    if (length === undefined || member >= this.width) throw new Error(`kv cache has no row ${row}, member ${member}`)
    return length
  }

  /** Adds a row of empty members and returns its number. */
  addRow(): number {
    const row = this.rowCount
    if (this.#next !== null && !this.#next.layout.canHold(row + 1, this.preparedCapacity)) this.#dropNext()
    if (!this.#layout.canHold(row + 1, this.capacity)) {
      if (this.preparedCapacity >= this.longest && this.#next !== null) this.#finishNext(this.#next)
      else this.#moveTo(this.#newLayout(row + 1, this.capacity))
    }
    for (let member = 0; member < this.width; member++) this.#lengths.push(0)
    this.#changes?.addRow()
    return row
  }

  /**
   * Removes a row; the last row takes its number.
   *
   * @returns the old number of the row that moved, or `row` itself when it was the last
   */
  removeRow(row: number): number {
    const last = this.rowCount - 1
    if (row !== last) {
      for (const { layout, sides } of this.#kept()) layout.copyRow(sides, last, row)
      for (let member = 0; member < this.width; member++) {
        this.#lengths[row * this.width + member] = this.lengthOf(last, member)
      }
    }
    this.#lengths.length -= this.width
    // What the next row finds must be finite: its masked columns are multiplied by zero.
    for (const { layout, sides } of this.#kept()) layout.clearRow(sides, last)
    this.#changes?.removeRow(row, last)
    return last
  }

  /** Forgets the tokens of a member; their memory is zeroed so that non-finite values cannot linger. */
  clear(place: KvPlace): void {
    this.#changes?.clear(place)
    for (const { layout, sides } of this.#kept()) layout.clearMember(sides, place)
    this.#lengths[place.row * this.width + place.member] = 0
  }

  /** Gives all memory back; the cache must not be used any more. */
  release(): void {
    this.#dropNext()
    this.#layout.release()
    this.#views = null
    this.#changes?.release()
  }

  /** What changes from now on, for the one who keeps a copy elsewhere. */
  watch(): KvChanges {
    this.#changes = new KvChanges()
    return this.#changes
  }

  /** Makes C `tokens`, rounded to a whole unit and not less than the longest member's, moving what is there. */
  setCapacity(tokens: number): void {
    const capacity = roundedCapacity(tokens)
    const rows = this.rowCount
    const next = this.#next
    if (capacity === this.capacity) return
    if (next?.layout.capacity === capacity) this.#finishNext(next)
    else if (this.#hasMemoryFor(capacity)) this.#relay(capacity)
    else this.#moveTo(this.#newLayout(rows, capacity))
  }

  /**
   * Does a part of what `setCapacity` does, so that it has nothing left to do after so many calls, or little. Changes no tensor.
   *
   * @param calls at least 1; may differ from call to call
   * @returns whether nothing is left to do, or little
   */
  prepareCapacity(tokens: number, calls: number): boolean {
    const capacity = roundedCapacity(tokens)
    if (capacity === this.capacity) return true
    if (this.#next === null && this.#hasMemoryFor(capacity) && this.sizeBytes <= QUICK_BYTES) return true
    if (this.#next?.layout.capacity !== capacity) {
      this.#dropNext()
      this.#next = { layout: this.#newLayout(this.rowCount, capacity), moved: 0 }
    }
    const next = this.#next
    const sides = 2 * this.shape.layerCount
    this.#take(next, Math.ceil((sides - next.moved) / Math.max(1, calls)))
    return next.moved === sides
  }

  /** Appends new tokens of a step to a member. */
  append(place: KvPlace, rows: KvNewRows): void {
    const start = this.#makeRoom(place, rows.count)
    for (const { layout, sides } of this.#kept()) layout.write(sides, place, start, rows)
  }

  /** Appends tokens [start, start + count) of a member of another cache. */
  appendFrom(
    place: KvPlace,
    source: KvCache,
    from: KvPlace & { readonly start: number; readonly count: number },
  ): void {
    if (from.start + from.count > source.lengthOf(from.row, from.member)) throw new Error('kv cache has fewer tokens')
    const at = this.#makeRoom(place, from.count)
    const span = { layout: source.#layout, place: from, start: from.start, count: from.count }
    for (const { layout, sides } of this.#kept()) layout.copy(sides, place, at, span)
  }

  /**
   * The dense tensor [rows * K * width, C, D] of one layer's keys (side 0) or values (side 1), without copying.
   *
   * Views are kept until rows or capacity change: making 2L of them for every token costs as much as a kernel.
   */
  tensor(layer: number, side: 0 | 1): HostTensor<'float32'> {
    const { rowCount: rows, capacity } = this
    if (this.#views?.rows !== rows) {
      const { headsPerRow, rowSize } = this.#layout
      const shape = [rows * headsPerRow, capacity, this.shape.headSize]
      const tensors = Array.from({ length: 2 * this.shape.layerCount }, (_, index) =>
        float32Tensor(this.#layout.side(index).subarray(0, rows * rowSize), shape),
      )
      this.#views = { rows, tensors }
    }
    const tensor = this.#views.tensors[2 * layer + side]
    if (tensor === undefined) throw new Error(`kv cache has no layer ${layer}`)
    return tensor
  }

  /** @returns where the new tokens start */
  #makeRoom({ row, member }: KvPlace, count: number): number {
    const start = this.lengthOf(row, member)
    const end = start + count
    if (end > this.capacity) throw new Error(`kv row ${row} overflows its capacity ${this.capacity}`)
    // a capacity that is prepared for shorter members is of no use any more
    if (end > this.preparedCapacity) this.#dropNext()
    this.#lengths[row * this.width + member] = end
    this.#changes?.append({ row, member }, start, count)
    return start
  }

  /** The sides that are kept up to date: those in use, and those moved already. */
  #kept(): readonly { readonly layout: KvLayout; readonly sides: number }[] {
    const used = { layout: this.#layout, sides: 2 * this.shape.layerCount }
    return this.#next === null ? [used] : [used, { layout: this.#next.layout, sides: this.#next.moved }]
  }

  /** Whether another capacity can be laid out in the memory there is. */
  #hasMemoryFor(capacity: number): boolean {
    const { rowCount: rows } = this
    const isTight = capacity > this.capacity || !this.#layout.isWasteful(rows, capacity)
    return isTight && this.#layout.canHold(rows, capacity)
  }

  #newLayout(rows: number, capacity: number): KvLayout {
    // Rows come one by one, so a little more than asked for.
    const room = { rows: Math.max(rows, Math.min(rows + 8, Math.floor(rows * 1.5))), tokens: capacity }
    const bytes = rows * this.width * capacity * kvBytesPerToken(this.shape)
    const held = this.#isGrowing && bytes <= QUICK_BYTES ? { rows, tokens: 2 * capacity } : room
    return new KvLayout(this.shape, { width: this.width, held, capacity, memory: this.#memory })
  }

  #take(next: { readonly layout: KvLayout; moved: number }, sides: number): void {
    const until = Math.min(next.moved + sides, 2 * this.shape.layerCount)
    // counted once it has moved: taking its memory may fail
    for (; next.moved < until; next.moved += 1) next.layout.takeSide(next.moved, this.#layout, this.rowCount)
  }

  /** Each side's memory is free for the sides that move after it. */
  #finishNext(next: { readonly layout: KvLayout; moved: number }): void {
    next.layout.reserve()
    this.#views = null
    for (let side = 0; side < 2 * this.shape.layerCount; side++) {
      if (side >= next.moved) next.layout.takeSide(side, this.#layout, this.rowCount)
      this.#layout.releaseSide(side)
    }
    this.#layout = next.layout
    this.#next = null
  }

  #moveTo(layout: KvLayout): void {
    this.#dropNext()
    this.#finishNext({ layout, moved: 0 })
  }

  #relay(capacity: number): void {
    this.#layout.relay(this.rowCount, capacity)
    this.#dropNext()
    this.#views = null
  }

  #dropNext(): void {
    this.#next?.layout.release()
    this.#next = null
  }
}
