/**
 * Writes protobuf messages: the encodings that ONNX files and training loops need, and no schema.
 *
 * Fields come out in the order they are added. Large byte fields are kept by reference until `finish`, so that a model's
 * inline weights are copied once. Source: https://protobuf.dev/programming-guides/encoding.
 */
import { GraphError } from '#base/errors/errors.js'

/** Wire types of a field's tag. */
const VARINT = 0
const LENGTH_DELIMITED = 2
const FIXED32 = 5
const FIXED64 = 1

const text = new TextEncoder()

/** Byte fields from this size on are kept by reference. */
const REFERENCED_BYTES = 4096

/** One message under construction. */
export class ProtobufWriter {
  /** What is complete: copies of the tail, and referenced bytes. */
  readonly #chunks: Uint8Array[] = []
  #chunkBytes = 0
  /** What was written since the last chunk; grows by doubling. */
  #tail = new Uint8Array(64)
  #tailBytes = 0

  /** An `int32`, `int64`, `bool` or enum field. @throws {GraphError} `invalid_integer` beyond 2^53 */
  integer(field: number, value: number): this {
    this.#varint(tag(field, VARINT))
    return this.#varint(value)
  }

  /** A `float` field. */
  float(field: number, value: number): this {
    this.#varint(tag(field, FIXED32))
    const at = this.#reserve(Float32Array.BYTES_PER_ELEMENT)
    new DataView(this.#tail.buffer).setFloat32(at, value, true)
    return this
  }

  /** A `double` field. */
  double(field: number, value: number): this {
    this.#varint(tag(field, FIXED64))
    const at = this.#reserve(Float64Array.BYTES_PER_ELEMENT)
    new DataView(this.#tail.buffer).setFloat64(at, value, true)
    return this
  }

  /** A `bytes` field; the bytes must not change before `finish`. */
  bytes(field: number, value: Uint8Array): this {
    this.#header(field, value.length)
    return this.#append(value)
  }

  string(field: number, value: string): this {
    return this.bytes(field, text.encode(value))
  }

  /** A repeated integer field in one piece, as proto3 writes it; nothing when it is empty. */
  integers(field: number, values: readonly number[]): this {
    const packed = new ProtobufWriter()
    for (const value of values) packed.#varint(value)
    return values.length === 0 ? this : this.message(field, packed)
  }

  /** A message inside this one. */
  message(field: number, value: ProtobufWriter): this {
    this.#header(field, value.#chunkBytes + value.#tailBytes)
    for (const chunk of value.#chunks) this.#append(chunk)
    return this.#append(value.#tail.subarray(0, value.#tailBytes))
  }

  /** All bytes in one array. */
  finish(): Uint8Array {
    const result = new Uint8Array(this.#chunkBytes + this.#tailBytes)
    let offset = 0
    for (const chunk of this.#chunks) {
      result.set(chunk, offset)
      offset += chunk.length
    }
    result.set(this.#tail.subarray(0, this.#tailBytes), offset)
    return result
  }

  #header(field: number, length: number): void {
    this.#varint(tag(field, LENGTH_DELIMITED))
    this.#varint(length)
  }

  #append(bytes: Uint8Array): this {
    if (bytes.length < REFERENCED_BYTES) {
      const at = this.#reserve(bytes.length)
      this.#tail.set(bytes, at)
      return this
    }
    if (this.#tailBytes > 0) this.#chunks.push(this.#tail.slice(0, this.#tailBytes))
    this.#chunks.push(bytes)
    this.#chunkBytes += this.#tailBytes + bytes.length
    this.#tailBytes = 0
    return this
  }

  /** Seven bits a byte, least significant first; negative numbers as 64-bit two's complement, which is ten bytes. */
  #varint(value: number): this {
    if (!Number.isSafeInteger(value)) {
      throw new GraphError('invalid_integer', `${value} cannot be written as an integer of a model file`)
    }
    if (value < 0) return this.#negativeVarint(BigInt.asUintN(64, BigInt(value)))
    let rest = value
    for (; rest >= 128; rest = Math.floor(rest / 128)) this.#byte((rest % 128) + 128)
    return this.#byte(rest)
  }

  #negativeVarint(value: bigint): this {
    let rest = value
    for (; rest >= 128n; rest >>= 7n) this.#byte(Number(rest & 127n) + 128)
    return this.#byte(Number(rest))
  }

  #byte(value: number): this {
    const at = this.#reserve(1)
    this.#tail[at] = value
    return this
  }

  /** Makes room in the tail. @returns where it begins */
  #reserve(size: number): number {
    const at = this.#tailBytes
    this.#tailBytes += size
    if (this.#tailBytes > this.#tail.length) {
      const grown = new Uint8Array(Math.max(2 * this.#tail.length, this.#tailBytes))
      grown.set(this.#tail.subarray(0, at))
      this.#tail = grown
    }
    return at
  }
}

function tag(field: number, wireType: number): number {
  return field * 8 + wireType
}
