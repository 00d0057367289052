/**
 * Keys and values of several sequences, owned by JavaScript and handed to the step graph where they lie.
 *
 * One buffer per layer and side, packed as [row, K, member, C, D]: a row is a group of `width` members that continue the same
 * prompt (one member where rows stand for themselves), all rows with one capacity C, because the graph needs dense tensors.
 * Cost grows with C, so it follows the longest member in tight steps. Rows are numbered without holes. Memory is taken as rows
 * and capacity need it. Knows nothing of tokens, requests or the graph.
 */
import { float32Tensor, type HostTensor } from '#numerics/tensor/host-tensor.js'

/** Sizes of the cache of one decoder. */
export interface KvShape {
  readonly layerCount: number
  readonly kvHeadCount: number
  readonly headSize: number
}

/** Bytes of keys and values of one token in all layers. */
export function kvBytesPerToken(shape: KvShape): number {
  return 2 * shape.layerCount * shape.kvHeadCount * shape.headSize * Float32Array.BYTES_PER_ELEMENT
}

/** Capacities are multiples of this: the graph's sums then do not depend on how much room there is. */
export const CAPACITY_UNIT = 16

/** The smallest capacity for so many tokens. */
export function roundedCapacity(tokens: number): number {
  return Math.ceil(tokens / CAPACITY_UNIT) * CAPACITY_UNIT
}

/** Which sequence of a cache. */
export interface KvPlace {
  readonly row: number
  readonly member: number
}

/** Where new keys and values lie in what a step returns: [2L, slots, tokens, D], slots as [row, K, member]. */
export interface KvNewRows extends KvPlace {
  readonly data: Float32Array
  readonly slots: number
  readonly width: number
  readonly tokens: number
  /** Tokens kept, from the first. */
  readonly count: number
}

/** Rows are numbered 0..rowCount-1 without holes; removing one moves the last into its place. */
export class KvCache {
  readonly shape: KvShape
  /** Members per row. */
  readonly width: number
  /** Token columns every member has in the dense tensors, C. */
  capacity = 0
  /** Tokens of each member: row * width + member. */
  readonly #lengths: number[] = []
  #sides: Float32Array[]
  #views: { rows: number; capacity: number; tensors: readonly HostTensor<'float32'>[] } | null = null

  constructor(shape: KvShape, width = 1) {
    this.shape = shape
    this.width = width
    this.#sides = Array.from({ length: 2 * shape.layerCount }, () => new Float32Array(0))
  }

  get rowCount(): number {
    return this.#lengths.length / this.width
  }

  /** Tokens of the longest member. */
  get longest(): number {
    return Math.max(0, ...this.#lengths)
  }

  /** Memory held. */
  get sizeBytes(): number {
    return this.#sides.reduce((sum, side) => sum + side.byteLength, 0)
  }

  lengthOf(row: number, member = 0): number {
    const length = this.#lengths[row * this.width + member]
    if (length === undefined || member >= this.width) throw new Error(`kv cache has no row ${row}, member ${member}`)
    return length
  }

  /** Adds a row of empty members and returns its number. */
  addRow(): number {
    const row = this.rowCount
    this.#resize(row + 1, this.capacity)
    for (let member = 0; member < this.width; member++) this.#lengths.push(0)
    return row
  }

  /**
   * Removes a row; the last row takes its number.
   *
   * @returns the old number of the row that moved, or `row` itself when it was the last
   */
  removeRow(row: number): number {
    const last = this.rowCount - 1
    const size = this.#headsPerRow * this.capacity * this.shape.headSize
    if (row !== last) {
      for (const side of this.#sides) side.copyWithin(row * size, last * size, (last + 1) * size)
      for (let member = 0; member < this.width; member++) {
        this.#lengths[row * this.width + member] = this.lengthOf(last, member)
      }
    }
    this.#lengths.length -= this.width
    // What the next row finds must be finite: its masked columns are multiplied by zero.
    for (const side of this.#sides) side.fill(0, last * size, (last + 1) * size)
    return last
  }

  /** Forgets the tokens of a member; their memory is zeroed so that non-finite values cannot linger. */
  clear(place: KvPlace): void {
    const { kvHeadCount } = this.shape
    for (const side of this.#sides) {
      for (let k = 0; k < kvHeadCount; k++) {
        const start = this.#offset(place, k)
        side.fill(0, start, start + this.capacity * this.shape.headSize)
      }
    }
    this.#lengths[place.row * this.width + place.member] = 0
  }

  /** Makes C at least `tokens`, rounded to a whole unit, moving what is there. */
  setCapacity(tokens: number): void {
    this.#resize(this.rowCount, roundedCapacity(tokens))
  }

  /** Appends new tokens of a step to a member. */
  append(place: KvPlace, rows: KvNewRows): void {
    const { kvHeadCount, headSize } = this.shape
    const start = this.#makeRoom(place, rows.count)
    const width = rows.count * headSize
    for (let s = 0; s < this.#sides.length; s++) {
      const side = this.#side(s)
      for (let k = 0; k < kvHeadCount; k++) {
        const slot = s * rows.slots + (rows.row * kvHeadCount + k) * rows.width + rows.member
        const source = slot * rows.tokens * headSize
        const target = this.#offset(place, k) + start * headSize
        // A plain loop beats `set(subarray)` for the one token a decode step appends.
        if (width <= 256) for (let i = 0; i < width; i++) side[target + i] = rows.data[source + i] as number
        else side.set(rows.data.subarray(source, source + width), target)
      }
    }
  }

  /** Appends tokens [start, start + count) of a member of another cache. */
  appendFrom(
    place: KvPlace,
    source: KvCache,
    from: KvPlace & { readonly start: number; readonly count: number },
  ): void {
    const { kvHeadCount, headSize } = this.shape
    if (from.start + from.count > source.lengthOf(from.row, from.member)) throw new Error('kv cache has fewer tokens')
    const at = this.#makeRoom(place, from.count)
    for (let s = 0; s < this.#sides.length; s++) {
      for (let k = 0; k < kvHeadCount; k++) {
        const begin = source.#offset(from, k) + from.start * headSize
        const tokens = source.#side(s).subarray(begin, begin + from.count * headSize)
        this.#side(s).set(tokens, this.#offset(place, k) + at * headSize)
      }
    }
  }

  /**
   * The dense tensor [rows * K * width, C, D] of one layer's keys (side 0) or values (side 1), without copying.
   *
   * Views are kept until rows or capacity change: making 2L of them for every token costs as much as a kernel.
   */
  tensor(layer: number, side: 0 | 1): HostTensor<'float32'> {
    const { rowCount: rows, capacity } = this
    if (this.#views?.rows !== rows || this.#views.capacity !== capacity) {
      const heads = rows * this.#headsPerRow
      const shape = [heads, capacity, this.shape.headSize]
      const size = heads * capacity * this.shape.headSize
      const tensors = this.#sides.map((data) => float32Tensor(data.subarray(0, size), shape))
      this.#views = { rows, capacity, tensors }
    }
    const tensor = this.#views.tensors[2 * layer + side]
    if (tensor === undefined) throw new Error(`kv cache has no layer ${layer}`)
    return tensor
  }

  get #headsPerRow(): number {
    return this.shape.kvHeadCount * this.width
  }

  #offset({ row, member }: KvPlace, k: number): number {
    return ((row * this.shape.kvHeadCount + k) * this.width + member) * this.capacity * this.shape.headSize
  }

  /** @returns where the new tokens start */
  #makeRoom({ row, member }: KvPlace, count: number): number {
    const start = this.lengthOf(row, member)
    if (start + count > this.capacity) throw new Error(`kv row ${row} overflows its capacity ${this.capacity}`)
    this.#lengths[row * this.width + member] = start + count
    return start
  }

  /** Lays everything out for a number of rows and a capacity, in memory that suffices for both. */
  #resize(rows: number, capacity: number): void {
    const { headSize } = this.shape
    const rowSize = this.#headsPerRow * capacity * headSize
    const held = this.#side(0).length
    const isMoved = capacity !== this.capacity
    if (!isMoved && rows * rowSize <= held) return
    // Rows come one by one, so a little more than asked for; far too much is given back.
    const roomy = rows <= this.rowCount ? rows : Math.max(rows, Math.min(rows + 4, Math.floor(rows * 1.25)))
    const heads = this.rowCount * this.#headsPerRow
    const kept = Math.min(this.capacity, capacity) * headSize
    for (let s = 0; s < this.#sides.length; s++) {
      const old = this.#side(s)
      const fresh = new Float32Array(roomy * rowSize)
      for (let head = 0; head < heads; head++) {
        const from = head * this.capacity * headSize
        fresh.set(old.subarray(from, from + kept), head * capacity * headSize)
      }
      this.#sides[s] = fresh
    }
    this.capacity = capacity
    this.#views = null
  }

  #side(index: number): Float32Array {
    const side = this.#sides[index]
    if (side === undefined) throw new Error(`kv cache has no side ${index}`)
    return side
  }
}
