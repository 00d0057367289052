/**
 * Keys and values of a batch of sequences, owned by JavaScript and handed to the step graph where they lie.
 *
 * One buffer per layer and side, rows packed as [row, K, C, D] with one capacity C for all rows: the graph needs dense
 * tensors and its cost grows with C, so C follows the longest row in tight steps and rows are moved inside the buffer.
 * Buffers are reserved for the largest size at once; the operating system commits pages when they are written.
 * Knows nothing of tokens, requests or the graph.
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

/** A block of consecutive tokens of one sequence: [2L, K, T, D], layer 0 keys, layer 0 values, layer 1 keys … */
export type KvBlock = Float32Array

/** Rows are numbered 0..rowCount-1 without holes; removing one moves the last into its place. */
export class KvCache {
  readonly shape: KvShape
  readonly maxRows: number
  readonly maxTokens: number
  /** Tokens held by each row. */
  readonly lengths: number[] = []
  /** Token columns every row has in the dense tensors, C. */
  capacity = 1
  readonly #sides: readonly Float32Array[]
  #views: { heads: number; capacity: number; tensors: readonly HostTensor<'float32'>[] } = {
    heads: -1,
    capacity: -1,
    tensors: [],
  }

  /** Reserves (does not touch) memory for `maxRows` rows of `maxTokens` tokens. */
  constructor(shape: KvShape, maxRows: number, maxTokens: number) {
    this.shape = shape
    this.maxRows = maxRows
    this.maxTokens = maxTokens
    const size = maxRows * shape.kvHeadCount * maxTokens * shape.headSize
    this.#sides = Array.from({ length: 2 * shape.layerCount }, () => new Float32Array(size))
  }

  get rowCount(): number {
    return this.lengths.length
  }

  /** Adds an empty row and returns its number. */
  addRow(): number {
    if (this.rowCount >= this.maxRows) throw new Error(`kv cache is full: ${this.maxRows} rows`)
    this.lengths.push(0)
    return this.rowCount - 1
  }

  /**
   * Removes a row; the last row takes its number.
   *
   * @returns the old number of the row that moved, or `row` itself when it was the last
   */
  removeRow(row: number): number {
    const last = this.rowCount - 1
    const length = this.#lengthOf(last)
    if (row !== last) {
      const { kvHeadCount, headSize } = this.shape
      for (const side of this.#sides) {
        for (let k = 0; k < kvHeadCount; k++) {
          const from = (last * kvHeadCount + k) * this.capacity * headSize
          side.copyWithin((row * kvHeadCount + k) * this.capacity * headSize, from, from + length * headSize)
        }
      }
      this.lengths[row] = length
    }
    this.lengths.pop()
    return last
  }

  /** Forgets a row's tokens beyond `length`; their memory is zeroed so that non-finite values cannot linger. */
  truncateRow(row: number, length: number): void {
    const { kvHeadCount, headSize } = this.shape
    const old = this.#lengthOf(row)
    for (const side of this.#sides) {
      for (let k = 0; k < kvHeadCount; k++) {
        const start = (row * kvHeadCount + k) * this.capacity
        side.fill(0, (start + length) * headSize, (start + old) * headSize)
      }
    }
    this.lengths[row] = Math.min(old, length)
  }

  /** Makes C exactly `capacity`, moving every row inside its buffer. */
  setCapacity(capacity: number): void {
    if (capacity > this.maxTokens)
      throw new Error(`kv cache cannot hold ${capacity} tokens, its limit is ${this.maxTokens}`)
    const { kvHeadCount, headSize } = this.shape
    const heads = this.rowCount * kvHeadCount
    const isGrowing = capacity > this.capacity
    for (const side of this.#sides) {
      for (let step = 0; step < heads; step++) {
        // Growing moves every head up and shrinking down, so the order keeps what has not moved yet intact.
        const head = isGrowing ? heads - 1 - step : step
        const from = head * this.capacity * headSize
        const length = this.#lengthOf(Math.floor(head / kvHeadCount))
        side.copyWithin(head * capacity * headSize, from, from + length * headSize)
      }
    }
    this.capacity = capacity
  }

  /**
   * Appends new tokens to a row.
   *
   * @param rows new keys and values as the step graph returns them: [2L, batch * K, tokens, D]
   * @param batch number of sequences in `rows`, and which of them is this row
   * @param tokens tokens per sequence in `rows`, of which the first `count` are kept
   */
  append(row: number, rows: Float32Array, from: { batch: number; index: number; tokens: number; count: number }): void {
    const { kvHeadCount, headSize } = this.shape
    const start = this.#lengthOf(row)
    if (start + from.count > this.capacity) throw new Error(`kv row ${row} overflows its capacity ${this.capacity}`)
    const width = from.count * headSize
    for (let s = 0; s < this.#sides.length; s++) {
      const side = this.#side(s)
      for (let k = 0; k < kvHeadCount; k++) {
        const source = ((s * from.batch + from.index) * kvHeadCount + k) * from.tokens * headSize
        const target = ((row * kvHeadCount + k) * this.capacity + start) * headSize
        // A plain loop beats `set(subarray)` for the one token a decode step appends.
        if (width <= 256) for (let i = 0; i < width; i++) side[target + i] = rows[source + i] as number
        else side.set(rows.subarray(source, source + width), target)
      }
    }
    this.lengths[row] = start + from.count
  }

  /** Copies tokens [start, start + count) of a row out. */
  readBlock(row: number, start: number, count: number): KvBlock {
    const { kvHeadCount, headSize } = this.shape
    const width = count * headSize
    const block = new Float32Array(this.#sides.length * kvHeadCount * width)
    for (let s = 0; s < this.#sides.length; s++) {
      const side = this.#side(s)
      for (let k = 0; k < kvHeadCount; k++) {
        const source = ((row * kvHeadCount + k) * this.capacity + start) * headSize
        block.set(side.subarray(source, source + width), (s * kvHeadCount + k) * width)
      }
    }
    return block
  }

  /** Appends a block that `readBlock` made. */
  appendBlock(row: number, block: KvBlock, count: number): void {
    this.append(row, block, { batch: 1, index: 0, tokens: count, count })
  }

  /** Appends all tokens of another cache's row. */
  appendRow(row: number, source: KvCache, sourceRow: number): void {
    const { kvHeadCount, headSize } = this.shape
    const start = this.#lengthOf(row)
    const count = source.#lengthOf(sourceRow)
    if (start + count > this.capacity) throw new Error(`kv row ${row} overflows its capacity ${this.capacity}`)
    for (let s = 0; s < this.#sides.length; s++) {
      for (let k = 0; k < kvHeadCount; k++) {
        const from = (sourceRow * kvHeadCount + k) * source.capacity * headSize
        const target = ((row * kvHeadCount + k) * this.capacity + start) * headSize
        this.#side(s).set(source.#side(s).subarray(from, from + count * headSize), target)
      }
    }
    this.lengths[row] = start + count
  }

  /**
   * The dense tensor [rows * K, C, D] of one layer's keys (side 0) or values (side 1), without copying.
   *
   * Views are kept until rows or capacity change: making 2L of them for every token costs as much as a kernel.
   */
  tensor(layer: number, side: 0 | 1): HostTensor<'float32'> {
    const { kvHeadCount, headSize } = this.shape
    const heads = this.rowCount * kvHeadCount
    if (this.#views.heads !== heads || this.#views.capacity !== this.capacity) {
      const { capacity } = this
      const shape = [heads, capacity, headSize]
      const size = heads * capacity * headSize
      this.#views = {
        heads,
        capacity,
        tensors: this.#sides.map((data) => float32Tensor(data.subarray(0, size), shape)),
      }
    }
    const tensor = this.#views.tensors[2 * layer + side]
    if (tensor === undefined) throw new Error(`kv cache has no layer ${layer}`)
    return tensor
  }

  #side(index: number): Float32Array {
    const side = this.#sides[index]
    if (side === undefined) throw new Error(`kv cache has no side ${index}`)
    return side
  }

  #lengthOf(row: number): number {
    const length = this.lengths[row]
    if (length === undefined) throw new Error(`kv cache has no row ${row}`)
    return length
  }
}
