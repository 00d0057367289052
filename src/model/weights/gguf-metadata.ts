/**
 * Parses the head of a GGUF file: key/value metadata and the table of tensors. Versions 2 and 3, little-endian.
 *
 * Our own reader rather than a package: local files, tokenizer tables of half a million strings, and every bound,
 * alignment and overlap checked before a tensor is read.
 * Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
import { WeightsError } from '#base/errors/errors.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import { openByteFile } from './byte-file.js'
import { createGgufCursor, type GgufCursor, MoreBytesNeeded } from './gguf/cursor.js'
import { GGUF_TYPES, type GgufType } from './gguf/types.js'

const MAGIC = 0x46554747 // "GGUF" read as a little-endian integer
const SUPPORTED_VERSIONS = [2, 3]
const DEFAULT_ALIGNMENT = 32
const MAX_ALIGNMENT = 1 << 20
const MAX_KEYS = 65_536
const MAX_TENSORS = 1_000_000
const MAX_KEY_LENGTH = 65_535
/** The format allows 4 dimensions (`GGML_MAX_DIMS`). */
const MAX_RANK = 4
/** Ten times the largest tokenizer known (a quarter of a million tokens, half a million merges). */
const MAX_HEAD_BYTES = 128 * 1024 * 1024
const FIRST_READ_BYTES = 4 * 1024 * 1024

/** One tensor of the table. */
export interface GgufTensor {
  /** The file's own name, for example `blk.0.attn_q.weight`. */
  readonly name: string
  readonly type: GgufType
  /** Row-major, slowest first: a linear weight is [out, in]. GGUF itself lists the fastest first. */
  readonly shape: readonly number[]
  /** Absolute position in the file. */
  readonly offsetBytes: number
  readonly sizeBytes: number
}

/** The head of a GGUF file. */
export interface GgufHead {
  readonly version: number
  /** Values as numbers, booleans, strings and plain arrays; 64-bit integers beyond 2^53 as bigint. */
  readonly metadata: ReadonlyMap<string, unknown>
  /** Where each value lies in the file, its type in front: to copy it unchanged. */
  readonly valueRanges: ReadonlyMap<string, { readonly offsetBytes: number; readonly sizeBytes: number }>
  readonly tensors: readonly GgufTensor[]
}

/**
 * Reads metadata and tensor table of a GGUF file, not the weights.
 *
 * @throws {WeightsError} `invalid_gguf`, `truncated_file`, `unsupported_gguf_version`, `duplicate_key`, `invalid_utf8`
 * @example
 * const { metadata } = await readGgufMetadata('model.gguf')
 * const tokens = metadata.get('tokenizer.ggml.tokens')
 */
export async function readGgufMetadata(path: string): Promise<GgufHead> {
  const file = await openByteFile(path)
  try {
    for (let length = FIRST_READ_BYTES; ; length *= 4) {
      const prefix = await file.read(0, Math.min(length, MAX_HEAD_BYTES, file.sizeBytes))
      try {
        return parseGguf(prefix, file.sizeBytes)
      } catch (error) {
        if (!(error instanceof MoreBytesNeeded)) throw error
      }
      if (length >= MAX_HEAD_BYTES) throw invalid(`has more than ${MAX_HEAD_BYTES} bytes of metadata`)
    }
  } finally {
    await file.close()
  }
}

/**
 * Parses the head from a prefix of the file.
 *
 * @throws {MoreBytesNeeded} if the prefix ends inside the head
 * @throws {WeightsError} see `readGgufMetadata`
 */
export function parseGguf(prefix: Uint8Array, fileSizeBytes: number): GgufHead {
  const cursor = createGgufCursor(prefix, fileSizeBytes)
  const version = parseVersion(cursor)
  const tensorCount = cursor.count(MAX_TENSORS, 'the number of tensors')
  const keyCount = cursor.count(MAX_KEYS, 'the number of keys')
  const metadata = new Map<string, unknown>()
  const valueRanges = new Map<string, { offsetBytes: number; sizeBytes: number }>()
  for (let i = 0; i < keyCount; i++) {
    const key = cursor.string('a key')
    if (key.length === 0 || key.length > MAX_KEY_LENGTH) throw invalid(`has a key of ${key.length} characters`)
    if (metadata.has(key)) throw new WeightsError('duplicate_key', `GGUF file has the key "${key}" twice`)
    const offsetBytes = cursor.offset
    metadata.set(key, cursor.value(key))
    valueRanges.set(key, { offsetBytes, sizeBytes: cursor.offset - offsetBytes })
  }
  const rows: TensorRow[] = []
  for (let i = 0; i < tensorCount; i++) rows.push(parseTensorRow(cursor))
  const alignment = parseAlignment(metadata.get('general.alignment'))
  const dataStart = Math.ceil(cursor.offset / alignment) * alignment
  const tensors = placeTensors(rows, { alignment, dataStart, fileSizeBytes })
  return { version, metadata, valueRanges, tensors }
}

interface TensorRow {
  readonly name: string
  readonly shape: readonly number[]
  readonly type: GgufType
  readonly relativeOffset: number
}

interface DataSection {
  readonly alignment: number
  readonly dataStart: number
  readonly fileSizeBytes: number
}

function parseVersion(cursor: GgufCursor): number {
  if (cursor.uint32() !== MAGIC) throw invalid('does not start with "GGUF"')
  const version = cursor.uint32()
  if (!SUPPORTED_VERSIONS.includes(version)) {
    // A big-endian 2 or 3 has its set bits in the upper half.
    const isBigEndian = version > 0xffff && (version & 0xffff) === 0
    throw new WeightsError(
      'unsupported_gguf_version',
      isBigEndian
        ? 'GGUF file is big-endian, expected little-endian'
        : `GGUF file has version ${version}, expected ${SUPPORTED_VERSIONS.join(' or ')}`,
    )
  }
  return version
}

function parseTensorRow(cursor: GgufCursor): TensorRow {
  const name = cursor.string('a tensor name')
  const rank = cursor.uint32()
  if (rank > MAX_RANK) throw invalid(`gives tensor "${name}" ${rank} dimensions, expected at most ${MAX_RANK}`)
  const dims: number[] = []
  for (let i = 0; i < rank; i++) dims.push(cursor.count(Number.MAX_SAFE_INTEGER, `a dimension of tensor "${name}"`))
  const typeId = cursor.uint32()
  const type = GGUF_TYPES.get(typeId)
  if (type === undefined) throw invalid(`gives tensor "${name}" the unknown type ${typeId}`)
  const relativeOffset = cursor.count(Number.MAX_SAFE_INTEGER, `the offset of tensor "${name}"`)
  return { name, shape: dims.reverse(), type, relativeOffset }
}

function parseAlignment(value: unknown): number {
  if (value === undefined) return DEFAULT_ALIGNMENT
  const isPowerOfTwo = typeof value === 'number' && Number.isInteger(Math.log2(value)) && value >= 1
  if (!isPowerOfTwo || value > MAX_ALIGNMENT) {
    throw invalid(`has general.alignment ${String(value)}, expected a power of two up to ${MAX_ALIGNMENT}`)
  }
  return value
}

function placeTensors(rows: readonly TensorRow[], section: DataSection): readonly GgufTensor[] {
  const { alignment, dataStart, fileSizeBytes } = section
  const names = new Set<string>()
  const tensors = rows.map(({ name, shape, type, relativeOffset }) => {
    if (names.has(name)) throw new WeightsError('duplicate_key', `GGUF file has the tensor "${name}" twice`)
    names.add(name)
    if (relativeOffset % alignment !== 0) {
      throw invalid(`puts tensor "${name}" at offset ${relativeOffset}, expected a multiple of ${alignment}`)
    }
    const rowLength = shape[shape.length - 1] ?? 1
    if (rowLength % type.blockLength !== 0) {
      throw invalid(`has rows of ${rowLength} values in tensor "${name}", expected a multiple of ${type.blockLength}`)
    }
    const elements = elementCount(shape)
    const sizeBytes = (elements / type.blockLength) * type.blockBytes
    const offsetBytes = dataStart + relativeOffset
    if (!Number.isSafeInteger(elements) || !Number.isSafeInteger(sizeBytes) || elements === 0) {
      throw invalid(`gives tensor "${name}" the shape [${shape.join(', ')}]`)
    }
    if (offsetBytes + sizeBytes > fileSizeBytes) {
      throw new WeightsError(
        'truncated_file',
        `GGUF file has ${fileSizeBytes} bytes, but tensor "${name}" ends at byte ${offsetBytes + sizeBytes}`,
      )
    }
    return { name, type, shape, offsetBytes, sizeBytes }
  })
  assertApart(tensors)
  return tensors
}

function assertApart(tensors: readonly GgufTensor[]): void {
  const byOffset = [...tensors].sort((a, b) => a.offsetBytes - b.offsetBytes)
  let end = 0
  for (const tensor of byOffset) {
    if (tensor.offsetBytes < end) throw invalid(`lets tensor "${tensor.name}" overlap the one before it`)
    end = tensor.offsetBytes + tensor.sizeBytes
  }
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_gguf', `GGUF file ${problem}`)
}
