/**
 * `ForwardBackwardRequest` of the Tinker API, read from its protobuf bytes: rows of tokens and what a loss takes for each of them.
 *
 * Field numbers are those of the client `tinker` 0.38.0. Arrays are little-endian. What is not served here is refused by name: images
 * and audio, sparse tensors. Knows the form alone; which loss takes which inputs is `loss-inputs.ts`.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import {
  bytesOf,
  doubleOf,
  integerOf,
  integersOf,
  type ProtobufField,
  readFields,
  textOf,
} from '#base/protobuf/protobuf-reader.js'
import { append } from '#base/util/lists.js'

/** A dense array of one datum. */
export interface LossTensor {
  readonly values: Float32Array | Int32Array
  readonly isFloat: boolean
  readonly shape: readonly number[]
}

/** One row. */
export interface LossDatum {
  readonly tokens: Int32Array
  readonly inputs: ReadonlyMap<string, LossTensor>
  /** It names sampled sequences, which only `stable_reinforce` reads. */
  readonly hasSpans: boolean
}

/** The request without its rows. */
export interface LossRequestHead {
  readonly modelId: string
  readonly seqId: number
  readonly lossName: string
  readonly config: ReadonlyMap<string, number | string>
  readonly isForwardOnly: boolean
  readonly datumCount: number
}

export interface LossRequest extends LossRequestHead {
  readonly data: readonly LossDatum[]
}

const FLOAT32 = 1
const INT64 = 2
const INT32 = 3

/**
 * Reads who asks for what; the rows are counted and not read.
 *
 * @throws {InvalidRequestError} `malformed_protobuf`
 */
export function readLossRequestHead(message: Uint8Array): LossRequestHead {
  let head = { modelId: '', seqId: 0, lossName: '', isForwardOnly: false, datumCount: 0 }
  const older = new Map<string, number | string>()
  const newer = new Map<string, number | string>()
  for (const field of readFields(message)) {
    if (field.number === 1) head = { ...head, modelId: textOf(field) }
    else if (field.number === 2) head = { ...head, seqId: integerOf(field) }
    else if (field.number === 3) head = { ...head, datumCount: head.datumCount + 1 }
    else if (field.number === 4) head = { ...head, lossName: textOf(field) }
    else if (field.number === 6) head = { ...head, isForwardOnly: integerOf(field) !== 0 }
    else if (field.number === 5) put(older, field, doubleOf)
    else if (field.number === 7) put(newer, field, readConfigValue)
  }
  return { ...head, config: newer.size > 0 ? newer : older }
}

/** Whose place a request has that is damaged somewhere behind it; null: it does not say. */
export function readLossRequestPlace(message: Uint8Array): Pick<LossRequestHead, 'modelId' | 'seqId'> | null {
  let [modelId, seqId]: [string | null, number | null] = [null, null]
  try {
    for (const field of readFields(message)) {
      if (field.number === 1) modelId = textOf(field)
      else if (field.number === 2) seqId = integerOf(field)
    }
  } catch (error) {
    if (!(error instanceof InvalidRequestError)) throw error
  }
  return modelId === null || seqId === null ? null : { modelId, seqId }
}

/**
 * Reads the whole request.
 *
 * @throws {InvalidRequestError} `malformed_protobuf`, `unsupported_input` naming the row
 */
export function readLossRequest(message: Uint8Array): LossRequest {
  const data: LossDatum[] = []
  for (const field of readFields(message)) {
    if (field.number === 3) data.push(readDatum(bytesOf(field), data.length))
  }
  return { ...readLossRequestHead(message), data }
}

function readDatum(message: Uint8Array, index: number): LossDatum {
  const chunks: Int32Array[] = []
  const inputs = new Map<string, LossTensor>()
  let hasSpans = false
  for (const field of readFields(message)) {
    if (field.number === 1) chunks.push(readChunk(bytesOf(field), index))
    else if (field.number === 2)
      put(inputs, field, (value, name) => readTensor(bytesOf(value), `data[${index}].${name}`))
    else if (field.number === 3 || field.number === 4) hasSpans = true
  }
  return { tokens: joined(chunks), inputs, hasSpans }
}

/** An entry of a map: field 1 is the key, field 2 the value. */
function put<T>(map: Map<string, T>, entry: ProtobufField, read: (value: ProtobufField, key: string) => T): void {
  let key = ''
  let value: ProtobufField | null = null
  for (const field of readFields(bytesOf(entry))) {
    if (field.number === 1) key = textOf(field)
    else if (field.number === 2) value = field
  }
  if (value !== null) map.set(key, read(value, key))
}

function readConfigValue(field: ProtobufField): number | string {
  for (const inner of readFields(bytesOf(field))) {
    if (inner.number === 1) return doubleOf(inner)
    if (inner.number === 2) return textOf(inner)
  }
  return 0
}

function readChunk(message: Uint8Array, index: number): Int32Array {
  for (const field of readFields(message)) {
    if (field.number !== 1) {
      throw unsupported(`data[${index}] holds ${field.number === 2 ? 'an image' : 'audio'}, expected tokens alone`)
    }
    for (const inner of readFields(bytesOf(field))) {
      if (inner.number === 1) return int32s(bytesOf(inner), `data[${index}].tokens`)
    }
  }
  return new Int32Array(0)
}

function readTensor(message: Uint8Array, name: string): LossTensor {
  let bytes: Uint8Array = new Uint8Array(0)
  let dtype = 0
  const shape: number[] = []
  for (const field of readFields(message)) {
    if (field.number === 1) bytes = bytesOf(field)
    else if (field.number === 2) throw unsupported(`${name} is sparse, expected a dense array`)
    else if (field.number === 3) dtype = integerOf(field)
    else if (field.number === 4) append(shape, integersOf(field))
  }
  if (dtype === FLOAT32) return { values: float32s(bytes, name), isFloat: true, shape }
  if (dtype === INT64) return { values: int64s(bytes, name), isFloat: false, shape }
  if (dtype === INT32) return { values: int32s(bytes, name), isFloat: false, shape }
  throw unsupported(`${name} has element type ${dtype}, expected float32 or int64`)
}

function joined(chunks: readonly Int32Array[]): Int32Array {
  const tokens = new Int32Array(chunks.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const chunk of chunks) {
    tokens.set(chunk, at)
    at += chunk.length
  }
  return tokens
}

/** A copy: views of a message need not lie where typed arrays may begin. */
function aligned(bytes: Uint8Array, size: number, name: string): ArrayBuffer {
  if (bytes.length % size !== 0) throw unsupported(`${name} has ${bytes.length} bytes, expected a multiple of ${size}`)
  return new Uint8Array(bytes).buffer
}

function float32s(bytes: Uint8Array, name: string): Float32Array {
  return new Float32Array(aligned(bytes, 4, name))
}

function int32s(bytes: Uint8Array, name: string): Int32Array {
  return new Int32Array(aligned(bytes, 4, name))
}

/** Token ids: all fit 32 bits, and those that do not are no ids. */
function int64s(bytes: Uint8Array, name: string): Int32Array {
  return Int32Array.from(new BigInt64Array(aligned(bytes, 8, name)), (value) => {
    if (value < -(2n ** 31n) || value >= 2n ** 31n) throw unsupported(`${name} holds ${value}, expected token ids`)
    return Number(value)
  })
}

function unsupported(message: string): InvalidRequestError {
  return new InvalidRequestError('unsupported_input', message)
}
