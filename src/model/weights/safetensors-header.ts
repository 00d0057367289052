/**
 * The header of a safetensors file: parsed strictly and written deterministically. Pure: bytes in, bytes out.
 *
 * Layout: 8 bytes little-endian header length, that many bytes of JSON, then the data the offsets point into.
 * Source: https://github.com/huggingface/safetensors, section "Format"; like the reference reader we demand that the
 * tensors tile the data without holes or overlaps and that nothing follows them.
 */
import { WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { DTYPE_SIZE_BYTES, type DType } from '#numerics/tensor/dtype.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import { decodeUtf8 } from './byte-file.js'
import { parseStrictJsonObject } from './strict-json.js'

/**
 * Largest header read, in bytes: a quarter of a million tensors. The reference allows 100 MB, which costs a second and a
 * gigabyte before the first lie in it is found.
 */
export const MAX_HEADER_BYTES = 25_000_000
/** Bytes before the header. */
export const HEADER_PREFIX_BYTES = 8
const MAX_RANK = 8
const METADATA_KEY = '__metadata__'

/** Element types of stored tensors: those of tensors in memory, and one that is widened when it is read. */
export type StoredDType = DType | 'float8_e4m3fn'

/** Bytes of one stored element. */
export function storedSizeBytes(dtype: StoredDType): number {
  return dtype === 'float8_e4m3fn' ? 1 : DTYPE_SIZE_BYTES[dtype]
}

/** Names of element types in the file, for those we know; others are reported by name when a tensor is read. */
const DTYPE_OF_NAME: ReadonlyMap<string, StoredDType> = new Map([
  ['F64', 'float64'],
  ['F32', 'float32'],
  ['F16', 'float16'],
  ['BF16', 'bfloat16'],
  ['I64', 'int64'],
  ['I32', 'int32'],
  ['I8', 'int8'],
  ['U8', 'uint8'],
  ['BOOL', 'bool'],
  ['F8_E4M3', 'float8_e4m3fn'],
] satisfies [string, StoredDType][])

/** Where one tensor lies. */
export interface SafetensorsEntry {
  readonly dtype: StoredDType
  readonly shape: readonly number[]
  /** Absolute position in the file. */
  readonly offsetBytes: number
  readonly sizeBytes: number
}

/** A parsed header. */
export interface SafetensorsHeader {
  readonly entries: ReadonlyMap<string, SafetensorsEntry>
  readonly metadata: ReadonlyMap<string, string>
}

/**
 * Reads the header's length from the first eight bytes.
 *
 * @throws {WeightsError} `truncated_file`, or `invalid_safetensors` if the header cannot fit in `fileSizeBytes`
 */
export function parseHeaderLength(
  prefix: Uint8Array,
  fileSizeBytes: number,
  what: string,
  maxBytes = MAX_HEADER_BYTES,
): number {
  if (prefix.length < HEADER_PREFIX_BYTES) {
    throw new WeightsError('truncated_file', `${what} has ${prefix.length} bytes, expected at least 8`)
  }
  const length = new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true)
  if (length > BigInt(maxBytes)) {
    assertNoOtherFormat(prefix, what)
    throw invalid(what, `claims a header of ${length} bytes, expected at most ${maxBytes}`)
  }
  if (Number(length) + HEADER_PREFIX_BYTES > fileSizeBytes) {
    throw new WeightsError('truncated_file', `${what} has ${fileSizeBytes} bytes, its header alone claims ${length}`)
  }
  return Number(length)
}

/**
 * How files of other formats begin that were given the name of this one: a zip as PyTorch writes it, a plain pickle, GGUF. Read as a
 * header's length, each is beyond the limit.
 */
function assertNoOtherFormat(prefix: Uint8Array, what: string): void {
  const start = Buffer.from(prefix).toString('latin1')
  // a pickle of protocol 2 to 5
  const isPickle = prefix[0] === 0x80 && (prefix[1] ?? 0) >= 2 && (prefix[1] ?? 0) <= 5
  if (start.startsWith('PK\u0003\u0004') || isPickle) {
    throw new WeightsError('pickle_refused', `${what} is a pickle file, which can run code when it is loaded`, {
      hint: 'convert it to safetensors, for example with save_pretrained(..., safe_serialization=True)',
    })
  }
  if (start.startsWith('GGUF')) throw invalid(what, 'is a GGUF file, expected safetensors')
}

/**
 * Parses and checks a header.
 *
 * @param headerBytes the JSON, without the eight bytes before it
 * @throws {WeightsError} `invalid_safetensors`, `invalid_json`, `duplicate_key`, `unsupported_dtype`, or `truncated_file`
 *   for offsets outside the file, overlaps, holes, and sizes that do not match shape and dtype
 */
export function parseHeader(headerBytes: Uint8Array, fileSizeBytes: number, what: string): SafetensorsHeader {
  const json = parseStrictJsonObject(decodeUtf8(headerBytes, what), `header of ${what}`)
  const dataStart = HEADER_PREFIX_BYTES + headerBytes.length
  const entries = new Map<string, SafetensorsEntry>()
  let metadata: ReadonlyMap<string, string> = new Map()
  for (const [name, value] of Object.entries(json)) {
    if (name === METADATA_KEY) metadata = parseMetadata(value, what)
    else entries.set(name, parseEntry(name, value, { dataStart, fileSizeBytes, what }))
  }
  assertTiled(entries, dataStart, fileSizeBytes, what)
  return { entries, metadata }
}

/** One tensor to be written. */
export interface HeaderTensor {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
}

/**
 * Builds prefix and header for `tensors` in their given order; the same input gives the same bytes.
 * The header is padded with spaces so that the data starts at a multiple of 8.
 */
export function buildHeader(
  tensors: readonly HeaderTensor[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const members: string[] = []
  const metadataKeys = Object.keys(metadata).sort()
  if (metadataKeys.length > 0) {
    const pairs = metadataKeys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(metadata[key])}`)
    members.push(`${JSON.stringify(METADATA_KEY)}:{${pairs.join(',')}}`)
  }
  let offset = 0
  for (const { name, dtype, shape } of tensors) {
    const end = offset + elementCount(shape) * DTYPE_SIZE_BYTES[dtype]
    const entry = { dtype: nameOfDtype(dtype), shape, data_offsets: [offset, end] }
    members.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`)
    offset = end
  }
  const json = new TextEncoder().encode(`{${members.join(',')}}`)
  const padded = Math.ceil(json.length / 8) * 8
  const bytes = new Uint8Array(HEADER_PREFIX_BYTES + padded).fill(0x20)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true)
  bytes.set(json, HEADER_PREFIX_BYTES)
  return bytes
}

interface FileFacts {
  readonly dataStart: number
  readonly fileSizeBytes: number
  readonly what: string
}

function parseEntry(name: string, value: JsonValue, { dataStart, fileSizeBytes, what }: FileFacts): SafetensorsEntry {
  if (!isJsonObject(value)) throw invalid(what, `describes tensor "${name}" by ${typeof value}, expected an object`)
  const { dtype: dtypeName, shape, data_offsets: offsets, ...rest } = value
  if (Object.keys(rest).length > 0) {
    throw invalid(what, `describes tensor "${name}" with the unknown field "${Object.keys(rest)[0]}"`)
  }
  const dtype = typeof dtypeName === 'string' ? DTYPE_OF_NAME.get(dtypeName) : undefined
  if (dtype === undefined) {
    throw new WeightsError(
      'unsupported_dtype',
      `${what} stores tensor "${name}" as ${JSON.stringify(dtypeName)}, expected one of ${[...DTYPE_OF_NAME.keys()].join(', ')}`,
    )
  }
  if (!isSizeList(shape) || shape.length > MAX_RANK) {
    throw invalid(what, `gives tensor "${name}" the shape ${JSON.stringify(shape)}, expected up to ${MAX_RANK} sizes`)
  }
  if (!isSizeList(offsets) || offsets.length !== 2) {
    throw invalid(what, `gives tensor "${name}" the offsets ${JSON.stringify(offsets)}, expected [begin, end]`)
  }
  const [begin, end] = offsets as readonly [number, number]
  const sizeBytes = elementCount(shape) * storedSizeBytes(dtype)
  if (!Number.isSafeInteger(sizeBytes) || end - begin !== sizeBytes) {
    const layout = `${dtypeName} [${shape.join(', ')}]`
    throw invalid(what, `gives tensor "${name}" ${end - begin} bytes, expected ${sizeBytes} for ${layout}`)
  }
  if (dataStart + end > fileSizeBytes) {
    throw new WeightsError(
      'truncated_file',
      `${what} has ${fileSizeBytes} bytes, but tensor "${name}" ends at byte ${dataStart + end}`,
    )
  }
  return { dtype, shape, offsetBytes: dataStart + begin, sizeBytes }
}

function parseMetadata(value: JsonValue, what: string): ReadonlyMap<string, string> {
  if (!isJsonObject(value)) throw invalid(what, `has ${METADATA_KEY} that is not an object`)
  const metadata = new Map<string, string>()
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw invalid(what, `has metadata "${key}" that is not a string`)
    metadata.set(key, text)
  }
  return metadata
}

function assertTiled(
  entries: ReadonlyMap<string, SafetensorsEntry>,
  dataStart: number,
  fileSizeBytes: number,
  what: string,
): void {
  const byOffset = [...entries].sort(([, a], [, b]) => a.offsetBytes - b.offsetBytes || a.sizeBytes - b.sizeBytes)
  let end = dataStart
  for (const [name, entry] of byOffset) {
    if (entry.offsetBytes < end) throw invalid(what, `lets tensor "${name}" overlap the one before it`)
    if (entry.offsetBytes > end) throw invalid(what, `leaves ${entry.offsetBytes - end} unused bytes before "${name}"`)
    end += entry.sizeBytes
  }
  if (end !== fileSizeBytes) throw invalid(what, `has ${fileSizeBytes - end} bytes after its last tensor, expected 0`)
}

function isSizeList(value: JsonValue | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && (size as number) >= 0)
}

function nameOfDtype(dtype: DType): string {
  for (const [name, known] of DTYPE_OF_NAME) if (known === dtype) return name
  throw new WeightsError('unsupported_dtype', `dtype "${dtype}" has no name in safetensors`)
}

function invalid(what: string, problem: string): WeightsError {
  return new WeightsError('invalid_safetensors', `${what} ${problem}`)
}
