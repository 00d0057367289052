/**
 * Reads GGUF's primitive values from a prefix of the file, every length checked before it is believed.
 *
 * Pure. When the prefix ends too early but the file goes on, `MoreBytesNeeded` asks the caller for a longer prefix.
 * Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, "File Structure".
 */
import { WeightsError } from '#base/errors/errors.js'
import { decodeUtf8 } from '../byte-file.js'

const MAX_ARRAY_DEPTH = 4

/** Not an error of the file: the prefix read so far is too short. */
export class MoreBytesNeeded extends Error {}

/** Numbers of the value types, `gguf_metadata_value_type`. */
const VALUE_TYPE = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
  array: 9,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const

/** Least bytes one value of a type can take, to bound array lengths before anything is allocated. */
const LEAST_BYTES: ReadonlyMap<number, number> = new Map([
  [VALUE_TYPE.uint8, 1],
  [VALUE_TYPE.int8, 1],
  [VALUE_TYPE.uint16, 2],
  [VALUE_TYPE.int16, 2],
  [VALUE_TYPE.uint32, 4],
  [VALUE_TYPE.int32, 4],
  [VALUE_TYPE.float32, 4],
  [VALUE_TYPE.bool, 1],
  [VALUE_TYPE.string, 8],
  [VALUE_TYPE.array, 12],
  [VALUE_TYPE.uint64, 8],
  [VALUE_TYPE.int64, 8],
  [VALUE_TYPE.float64, 8],
] satisfies [number, number][])

/** A position in the bytes that only moves forward. */
export interface GgufCursor {
  readonly offset: number
  uint32(): number
  /** A 64-bit count or offset; refused beyond `limit`. */
  count(limit: number, what: string): number
  string(what: string): string
  /** A tagged value; 64-bit integers become numbers where exact, else bigint; arrays become plain arrays. */
  value(key: string): unknown
  skip(bytes: number): void
}

/**
 * @param prefix the first bytes of the file
 * @param fileSizeBytes size of the whole file: a length that passes it is a lie, one that only passes the prefix is not
 */
export function createGgufCursor(prefix: Uint8Array, fileSizeBytes: number): GgufCursor {
  const view = new DataView(prefix.buffer, prefix.byteOffset, prefix.length)
  let offset = 0

  function take(length: number, what: string): number {
    const start = offset
    if (start + length > fileSizeBytes) {
      throw new WeightsError(
        'truncated_file',
        `GGUF file has ${fileSizeBytes} bytes, but ${what} needs ${start + length}`,
      )
    }
    if (start + length > prefix.length) throw new MoreBytesNeeded()
    offset += length
    return start
  }

  function count(limit: number, what: string): number {
    const value = view.getBigUint64(take(8, what), true)
    if (value > BigInt(limit)) throw invalid(`claims ${value} for ${what}, expected at most ${limit}`)
    return Number(value)
  }

  function string(what: string): string {
    const length = count(fileSizeBytes, `the length of ${what}`)
    const start = take(length, what)
    return decodeUtf8(prefix.subarray(start, start + length), what)
  }

  function scalar(type: number, key: string): unknown {
    switch (type) {
      case VALUE_TYPE.uint8:
        return view.getUint8(take(1, key))
      case VALUE_TYPE.int8:
        return view.getInt8(take(1, key))
      case VALUE_TYPE.uint16:
        return view.getUint16(take(2, key), true)
      case VALUE_TYPE.int16:
        return view.getInt16(take(2, key), true)
      case VALUE_TYPE.uint32:
        return view.getUint32(take(4, key), true)
      case VALUE_TYPE.int32:
        return view.getInt32(take(4, key), true)
      case VALUE_TYPE.float32:
        return view.getFloat32(take(4, key), true)
      case VALUE_TYPE.bool:
        return bool(view.getUint8(take(1, key)), key)
      case VALUE_TYPE.string:
        return string(key)
      case VALUE_TYPE.uint64:
        return exact(view.getBigUint64(take(8, key), true))
      case VALUE_TYPE.int64:
        return exact(view.getBigInt64(take(8, key), true))
      case VALUE_TYPE.float64:
        return view.getFloat64(take(8, key), true)
      default:
        throw invalid(`gives key "${key}" the unknown value type ${type}`)
    }
  }

  function array(key: string, depth: number): unknown[] {
    if (depth > MAX_ARRAY_DEPTH) throw invalid(`nests arrays in key "${key}" deeper than ${MAX_ARRAY_DEPTH}`)
    const type = view.getUint32(take(4, key), true)
    const leastBytes = LEAST_BYTES.get(type)
    if (leastBytes === undefined) throw invalid(`gives key "${key}" an array of the unknown type ${type}`)
    // Eight bytes are the length's own.
    const length = count(
      Math.max(0, Math.floor((fileSizeBytes - offset - 8) / leastBytes)),
      `the length of array "${key}"`,
    )
    if (offset + length * leastBytes > prefix.length) throw new MoreBytesNeeded()
    const values: unknown[] = []
    for (let i = 0; i < length; i++) {
      values.push(type === VALUE_TYPE.array ? array(key, depth + 1) : scalar(type, key))
    }
    return values
  }

  return {
    get offset() {
      return offset
    },
    uint32: () => view.getUint32(take(4, 'the header'), true),
    count,
    string,
    value(key) {
      const type = view.getUint32(take(4, key), true)
      return type === VALUE_TYPE.array ? array(key, 1) : scalar(type, key)
    },
    skip: (bytes) => void take(bytes, 'padding'),
  }
}

function bool(byte: number, key: string): boolean {
  if (byte > 1) throw invalid(`gives the boolean key "${key}" the byte ${byte}, expected 0 or 1`)
  return byte === 1
}

function exact(value: bigint): number | bigint {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

function invalid(problem: string): WeightsError {
  return new WeightsError('invalid_gguf', `GGUF file ${problem}`)
}
