/**
 * Safetensors files: lazy range reads of big ones, whole reads and writes of small ones.
 *
 * Knows nothing of models. The header rules live in `safetensors-header.ts`.
 */
import { open } from 'node:fs/promises'
import { endianness } from 'node:os'
import { WeightsError } from '#base/errors/errors.js'
import { assertNever } from '#base/util/assert-never.js'
import { copyOf, type FileContent, sizeOf } from '#base/util/file-content.js'
import { DTYPE_SIZE_BYTES, type HostArray } from '#numerics/tensor/dtype.js'
import { bfloat16ToFloat32, float16ToFloat32 } from '#numerics/tensor/half.js'
import { elementCount, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { type ByteFile, openByteFile } from './byte-file.js'
import { float8ToFloat32 } from './float8.js'
import {
  buildHeader,
  HEADER_PREFIX_BYTES,
  MAX_HEADER_BYTES,
  parseHeader,
  parseHeaderLength,
  type SafetensorsEntry,
  storedSizeBytes,
} from './safetensors-header.js'

/** Files fully read into memory may be at most this large. */
const MAX_WHOLE_FILE_BYTES = 2 ** 31

/** An open safetensors file: the header is checked, tensors are read on demand. Close it when done. */
export interface SafetensorsFile {
  readonly path: string
  readonly sizeBytes: number
  readonly metadata: ReadonlyMap<string, string>
  readonly entries: ReadonlyMap<string, SafetensorsEntry>
  /** The underlying file, for digests. */
  readonly file: ByteFile
  /**
   * Reads one tensor as stored.
   *
   * @throws {WeightsError} `tensor_not_found`, `truncated_file`, `unsupported_dtype` for floats of eight bits
   */
  read(name: string): Promise<HostTensor>
  /**
   * Reads one floating tensor (F64, F32, F16, BF16, F8_E4M3 without its scales) as float32.
   *
   * @throws {WeightsError} `unsupported_dtype` for integer tensors
   */
  readFloat32(name: string): Promise<Float32Array>
  /** As `readFloat32`, of `count` elements from `start` on. */
  readPart(name: string, start: number, count: number): Promise<Float32Array>
  close(): Promise<void>
}

/**
 * Opens a safetensors file and checks its header against the file's size.
 *
 * @throws {WeightsError} for every malformed header, see `parseHeader`
 */
export async function openSafetensors(path: string): Promise<SafetensorsFile> {
  assertLittleEndian()
  const file = await openByteFile(path)
  try {
    const what = `safetensors file "${path}"`
    const prefix = await file.read(0, Math.min(HEADER_PREFIX_BYTES, file.sizeBytes))
    const headerLength = parseHeaderLength(prefix, file.sizeBytes, what)
    const headerBytes = await file.read(HEADER_PREFIX_BYTES, headerLength)
    const { entries, metadata } = parseHeader(headerBytes, file.sizeBytes, what)
    const read = async (name: string): Promise<HostTensor> => {
      const entry = entryOf(entries, name, what)
      const bytes = await file.read(entry.offsetBytes, entry.sizeBytes)
      return toTensor(name, entry, bytes.buffer, 0)
    }
    return {
      path,
      sizeBytes: file.sizeBytes,
      metadata,
      entries,
      file,
      read,
      readFloat32: async (name) => {
        const { dtype, offsetBytes, sizeBytes } = entryOf(entries, name, what)
        if (dtype === 'float8_e4m3fn') return float8ToFloat32(await file.read(offsetBytes, sizeBytes))
        return toFloat32(await read(name), name)
      },
      readPart: async (name, start, count) => {
        const { dtype, offsetBytes } = entryOf(entries, name, what)
        const elementBytes = storedSizeBytes(dtype)
        const bytes = await file.read(offsetBytes + start * elementBytes, count * elementBytes)
        if (dtype === 'float8_e4m3fn') return float8ToFloat32(bytes)
        return toFloat32(toTensor(name, { dtype, shape: [count] }, bytes.buffer, 0), name)
      },
      close: () => file.close(),
    }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** A whole small file in memory. */
export interface SafetensorsContent {
  readonly tensors: ReadonlyMap<string, HostTensor>
  readonly metadata: ReadonlyMap<string, string>
}

/** Reads a small safetensors file whole; see `decodeSafetensors`. */
export async function readSafetensors(path: string): Promise<SafetensorsContent> {
  const file = await openByteFile(path)
  try {
    if (file.sizeBytes > MAX_WHOLE_FILE_BYTES) {
      throw new WeightsError('file_too_large', `"${path}" has ${file.sizeBytes} bytes, expected at most 2 GiB`)
    }
    return decodeSafetensors(await file.read(0, file.sizeBytes), `safetensors file "${path}"`)
  } finally {
    await file.close()
  }
}

/**
 * Parses safetensors bytes; each tensor is a copy, so the input may be reused.
 *
 * @throws {WeightsError} as `openSafetensors`
 */
export function decodeSafetensors(
  content: FileContent,
  what = 'safetensors content',
  maxHeaderBytes = MAX_HEADER_BYTES,
): SafetensorsContent {
  assertLittleEndian()
  const sizeBytes = sizeOf(content)
  const headerLength = parseHeaderLength(copyOf(content, 0, HEADER_PREFIX_BYTES), sizeBytes, what, maxHeaderBytes)
  const { entries, metadata } = parseHeader(copyOf(content, HEADER_PREFIX_BYTES, headerLength), sizeBytes, what)
  const tensors = new Map<string, HostTensor>()
  for (const [name, entry] of entries) {
    tensors.set(name, toTensor(name, entry, copyOf(content, entry.offsetBytes, entry.sizeBytes).buffer, 0))
  }
  return { tensors, metadata }
}

/** Serializes tensors into one array; see `safetensorsPieces`. */
export function encodeSafetensors(
  tensors: ReadonlyMap<string, HostTensor>,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array<ArrayBuffer> {
  return copyOf(safetensorsPieces(tensors, metadata))
}

/**
 * Serializes tensors, of any size: the header, then views of their data, to be read before the data change. The same input
 * gives the same bytes. Tensors are ordered by element size, then by name, so that each starts at a multiple of its element size.
 *
 * @throws {WeightsError} `size_mismatch` if a tensor's data does not fill its shape; `invalid_name` for `__metadata__`
 */
export function safetensorsPieces(
  tensors: ReadonlyMap<string, HostTensor>,
  metadata: Readonly<Record<string, string>> = {},
): readonly Uint8Array[] {
  assertLittleEndian()
  const ordered = [...tensors].sort(
    ([nameA, a], [nameB, b]) =>
      DTYPE_SIZE_BYTES[b.dtype] - DTYPE_SIZE_BYTES[a.dtype] || (nameA < nameB ? -1 : nameA > nameB ? 1 : 0),
  )
  for (const [name, { shape, data }] of ordered) {
    if (name === '__metadata__') throw new WeightsError('invalid_name', 'tensor name "__metadata__" is reserved')
    if (elementCount(shape) !== data.length) {
      throw new WeightsError(
        'size_mismatch',
        `tensor "${name}" has ${data.length} elements, expected ${elementCount(shape)} for [${shape.join(', ')}]`,
      )
    }
  }
  const header = buildHeader(
    ordered.map(([name, { dtype, shape }]) => ({ name, dtype, shape })),
    metadata,
  )
  return [header, ...ordered.map(([, { data }]) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength))]
}

/** Writes a small safetensors file and flushes it to disk; see `encodeSafetensors`. */
export async function writeSafetensors(
  path: string,
  tensors: ReadonlyMap<string, HostTensor>,
  metadata: Readonly<Record<string, string>> = {},
): Promise<void> {
  await writeFlushed(path, encodeSafetensors(tensors, metadata))
}

/** Writes a file and flushes it to disk before returning. */
export async function writeFlushed(path: string, content: Uint8Array | string): Promise<void> {
  const handle = await open(path, 'w')
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * Widens a floating tensor to float32; float32 data is returned as it is, not copied.
 *
 * @throws {WeightsError} `unsupported_dtype` for integers
 */
export function toFloat32(tensor: HostTensor, name: string): Float32Array {
  switch (tensor.dtype) {
    case 'float32':
      return tensor.data
    case 'float64':
      return Float32Array.from(tensor.data)
    case 'float16':
      return float16ToFloat32(tensor.data)
    case 'bfloat16':
      return bfloat16ToFloat32(tensor.data)
    case 'int8':
    case 'uint8':
    case 'int32':
    case 'int64':
    case 'bool':
      throw new WeightsError(
        'unsupported_dtype',
        `tensor "${name}" is stored as ${tensor.dtype}, expected float32, float16 or bfloat16`,
      )
    default:
      return assertNever(tensor)
  }
}

function entryOf(entries: ReadonlyMap<string, SafetensorsEntry>, name: string, what: string): SafetensorsEntry {
  const entry = entries.get(name)
  if (entry === undefined) throw new WeightsError('tensor_not_found', `${what} has no tensor "${name}"`)
  return entry
}

function toTensor(
  name: string,
  { dtype, shape }: Pick<SafetensorsEntry, 'dtype' | 'shape'>,
  buffer: ArrayBuffer,
  byteOffset: number,
): HostTensor {
  const length = elementCount(shape)
  const array = <A extends HostArray>(Type: new (buffer: ArrayBuffer, byteOffset: number, length: number) => A): A =>
    new Type(buffer, byteOffset, length)
  switch (dtype) {
    case 'float32':
      return { dtype, shape, data: array(Float32Array) }
    case 'float64':
      return { dtype, shape, data: array(Float64Array) }
    case 'float16':
    case 'bfloat16':
      return { dtype, shape, data: array(Uint16Array) }
    case 'int8':
      return { dtype, shape, data: array(Int8Array) }
    case 'uint8':
    case 'bool':
      return { dtype, shape, data: array(Uint8Array) }
    case 'int32':
      return { dtype, shape, data: array(Int32Array) }
    case 'int64':
      return { dtype, shape, data: array(BigInt64Array) }
    case 'float8_e4m3fn':
      throw new WeightsError(
        'unsupported_dtype',
        `tensor "${name}" is stored as F8_E4M3, expected float32, float16 or bfloat16`,
      )
    default:
      return assertNever(dtype)
  }
}

/** Weight files are little-endian and are read as typed arrays without swapping. */
function assertLittleEndian(): void {
  if (endianness() !== 'LE') {
    throw new WeightsError('unsupported_machine', 'weight files are read on little-endian machines only')
  }
}
