/**
 * Writes a GGUF file, version 3, little-endian: metadata, table of tensors, then the tensors on their borders.
 *
 * Knows nothing of models. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "File Structure".
 */
import { elementCount } from '#numerics/tensor/host-tensor.js'
import type { ExportFile } from '../export-file.js'
import { type FloatStorage, storedBytes, toStoredBytes } from '../float-bytes.js'

/** A metadata value with its type; `raw` is type and value as another GGUF file has them. */
export type GgufValue =
  | { readonly type: 'uint32' | 'int32' | 'float32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'int32s' | 'float32s'; readonly value: readonly number[] }
  | { readonly type: 'bools'; readonly value: readonly boolean[] }
  | { readonly type: 'raw'; readonly value: Uint8Array }

export type GgufEntries = ReadonlyMap<string, GgufValue>

/** A tensor to be written. */
export interface GgufOutputTensor {
  /** The file's own name. */
  readonly name: string
  /** Row-major, slowest first. */
  readonly shape: readonly number[]
  readonly storage: FloatStorage
  read(): Promise<Float32Array>
}

/** `gguf_metadata_value_type` */
const VALUE_TYPE = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const
/** `ggml_type` */
const TENSOR_TYPE: Readonly<Record<FloatStorage, number>> = { f32: 0, f16: 1, q8_0: 8, bf16: 30 }
const ALIGNMENT = 32
const VERSION = 3

/** A GGUF file; the values of `tensors` are read while it is written. */
export function ggufFile(name: string, entries: GgufEntries, tensors: readonly GgufOutputTensor[]): ExportFile {
  const head = new ByteList()
  head.text('GGUF')
  head.uint32(VERSION)
  head.uint64(tensors.length)
  head.uint64(entries.size)
  for (const [key, value] of entries) {
    head.string(key)
    writeValue(head, value)
  }
  let offset = 0
  for (const tensor of tensors) {
    head.string(tensor.name)
    head.uint32(tensor.shape.length)
    for (const size of [...tensor.shape].reverse()) head.uint64(size)
    head.uint32(TENSOR_TYPE[tensor.storage])
    head.uint64(offset)
    offset = aligned(offset + sizeOf(tensor))
  }
  const headBytes = padded(head.bytes())
  return {
    name,
    sizeBytes: headBytes.length + offset,
    bytes: async function* write() {
      yield headBytes
      for (const tensor of tensors) yield padded(toStoredBytes(await tensor.read(), tensor.storage, tensor.name))
    },
  }
}

function writeValue(out: ByteList, entry: GgufValue): void {
  switch (entry.type) {
    case 'raw':
      out.raw(entry.value)
      return
    case 'uint32':
      out.uint32(VALUE_TYPE.uint32)
      out.uint32(entry.value)
      return
    case 'int32':
      out.uint32(VALUE_TYPE.int32)
      out.numbers(Int32Array.of(entry.value))
      return
    case 'float32':
      out.uint32(VALUE_TYPE.float32)
      out.numbers(Float32Array.of(entry.value))
      return
    case 'bool':
      out.uint32(VALUE_TYPE.bool)
      out.raw(Uint8Array.of(entry.value ? 1 : 0))
      return
    case 'string':
      out.uint32(VALUE_TYPE.string)
      out.string(entry.value)
      return
    case 'strings':
      arrayHead(out, VALUE_TYPE.string, entry.value.length)
      for (const text of entry.value) out.string(text)
      return
    case 'int32s':
      arrayHead(out, VALUE_TYPE.int32, entry.value.length)
      out.numbers(Int32Array.from(entry.value))
      return
    case 'float32s':
      arrayHead(out, VALUE_TYPE.float32, entry.value.length)
      out.numbers(Float32Array.from(entry.value))
      return
    case 'bools':
      arrayHead(out, VALUE_TYPE.bool, entry.value.length)
      out.raw(Uint8Array.from(entry.value, (value) => (value ? 1 : 0)))
      return
  }
}

function arrayHead(out: ByteList, type: number, length: number): void {
  out.uint32(VALUE_TYPE.array)
  out.uint32(type)
  out.uint64(length)
}

function sizeOf({ storage, shape }: GgufOutputTensor): number {
  return storedBytes(storage, elementCount(shape))
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT
}

function padded(bytes: Uint8Array): Uint8Array {
  const length = aligned(bytes.length)
  if (length === bytes.length) return bytes
  const out = new Uint8Array(length)
  out.set(bytes)
  return out
}

/** Bytes that grow. */
class ByteList {
  #bytes = new Uint8Array(1 << 16)
  #length = 0

  raw(bytes: Uint8Array): void {
    const needed = this.#length + bytes.length
    if (needed > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.length))
      larger.set(this.#bytes.subarray(0, this.#length))
      this.#bytes = larger
    }
    this.#bytes.set(bytes, this.#length)
    this.#length = needed
  }

  numbers(values: Int32Array | Float32Array | Uint32Array | BigUint64Array): void {
    this.raw(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
  }

  uint32(value: number): void {
    this.numbers(Uint32Array.of(value))
  }

  uint64(value: number): void {
    this.numbers(BigUint64Array.of(BigInt(value)))
  }

  text(value: string): void {
    this.raw(Buffer.from(value, 'utf8'))
  }

  string(value: string): void {
    const bytes = Buffer.from(value, 'utf8')
    this.uint64(bytes.length)
    this.raw(bytes)
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }
}
