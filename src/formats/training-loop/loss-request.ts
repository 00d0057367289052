/**
 * `ForwardBackwardRequest` of a training loop, read from its protobuf bytes: rows of tokens and what a loss takes for each.
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

/** Rows of a request: its client sends some hundreds at once. */
export const MAX_ROWS = 32_768
/** Fields of a request, those of its rows included: a row has about twenty, and its arrays are one each. */
const MAX_FIELDS = 2_000_000
const MAX_SETTINGS = 100
/** Bytes of a name. */
const MAX_NAME = 500
/** Bytes of a tensor's shape: more dimensions than any has. */
const MAX_SHAPE = 64

const FLOAT32 = 1
const INT64 = 2
const INT32 = 3

/**
 * Of which run a request is, as soon as its name has come: it stands first.
 *
 * @param beginning of the message
 * @returns null while too little of it is there
 * @throws {InvalidRequestError} `malformed_protobuf`
 */
export function readRunOfBeginning(beginning: Uint8Array): string | null {
  const [tag, low, high = 0] = beginning
  if (tag === undefined) return null
  if (tag !== 10) {
    throw new InvalidRequestError('malformed_protobuf', 'the message must begin with model_id, its field 1', {
      hint: 'it is the body of forward_backward of the client tinker',
    })
  }
  if (low === undefined || (low >= 128 && beginning.length < 3)) return null
  const [length, start] = low < 128 ? [low, 2] : [low - 128 + 128 * high, 3]
  if (length > MAX_NAME) throw tooLong('model_id')
  if (beginning.length < start + length) return null
  return new TextDecoder().decode(beginning.subarray(start, start + length))
}

/**
 * Reads who asks for what; the rows are counted and not read.
 *
 * @throws {InvalidRequestError} `malformed_protobuf`, `too_many_rows`, `too_many_fields`
 */
export function readLossRequestHead(message: Uint8Array): LossRequestHead {
  let head = { modelId: '', seqId: 0, lossName: '', isForwardOnly: false }
  const older = new Map<string, number | string>()
  const newer = new Map<string, number | string>()
  const fieldsOf = createCountedReader(MAX_ROWS + 10 * MAX_SETTINGS)
  let datumCount = 0
  for (const field of fieldsOf(message)) {
    if (field.number === 1) head = { ...head, modelId: nameOf(field, 'model_id') }
    else if (field.number === 2) head = { ...head, seqId: integerOf(field) }
    else if (field.number === 3) datumCount += 1
    else if (field.number === 4) head = { ...head, lossName: nameOf(field, 'loss_fn') }
    else if (field.number === 6) head = { ...head, isForwardOnly: integerOf(field) !== 0 }
    else if (field.number === 5) put(older, field, { fieldsOf, read: doubleOf })
    else if (field.number === 7) put(newer, field, { fieldsOf, read: (value) => readConfigValue(value, fieldsOf) })
    if (datumCount > MAX_ROWS) {
      throw new InvalidRequestError('too_many_rows', `data has more than ${MAX_ROWS} rows`, {
        hint: 'send them in several requests; their gradients add up',
      })
    }
    if (older.size > MAX_SETTINGS || newer.size > MAX_SETTINGS) {
      throw new InvalidRequestError('unknown_setting', `loss_fn_config has more than ${MAX_SETTINGS} settings`)
    }
  }
  return { ...head, datumCount, config: newer.size > 0 ? newer : older }
}

/** Whose place a request has that is damaged somewhere behind it; null: it does not say. */
export function readLossRequestPlace(message: Uint8Array): Pick<LossRequestHead, 'modelId' | 'seqId'> | null {
  let [modelId, seqId]: [string | null, number | null] = [null, null]
  try {
    for (const field of createCountedReader(MAX_ROWS)(message)) {
      if (field.number === 1) modelId = nameOf(field, 'model_id')
      else if (field.number === 2) seqId = integerOf(field)
      // both stand first
      if (modelId !== null && seqId !== null) break
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
  const head = readLossRequestHead(message)
  const fieldsOf = createCountedReader(MAX_FIELDS)
  const data: LossDatum[] = []
  for (const field of fieldsOf(message)) {
    if (field.number === 3) data.push(readDatum(bytesOf(field), data.length, fieldsOf))
  }
  return { ...head, data }
}

/** Reads fields as `readFields` does, and counts them over all messages it is given. */
type FieldReader = (message: Uint8Array) => Iterable<ProtobufField>

function createCountedReader(most: number): FieldReader {
  let count = 0
  return function* read(message) {
    for (const field of readFields(message)) {
      count += 1
      if (count > most) {
        throw new InvalidRequestError('too_many_fields', `the message has more than ${most} fields`, {
          hint: 'send its rows in several requests',
        })
      }
      yield field
    }
  }
}

function nameOf(field: ProtobufField, what: string): string {
  if (typeof field.value !== 'number' && field.value.length > MAX_NAME) throw tooLong(what)
  return textOf(field)
}

function tooLong(what: string): InvalidRequestError {
  return new InvalidRequestError('malformed_protobuf', `${what} is longer than ${MAX_NAME} bytes`)
}

function readDatum(message: Uint8Array, index: number, fieldsOf: FieldReader): LossDatum {
  const chunks: Int32Array[] = []
  const inputs = new Map<string, LossTensor>()
  let hasSpans = false
  const read = (value: ProtobufField, name: string): LossTensor =>
    readTensor(bytesOf(value), `data[${index}].${name}`, fieldsOf)
  for (const field of fieldsOf(message)) {
    if (field.number === 1) chunks.push(readChunk(bytesOf(field), index, fieldsOf))
    else if (field.number === 2) put(inputs, field, { fieldsOf, read })
    else if (field.number === 3 || field.number === 4) hasSpans = true
  }
  return { tokens: joined(chunks), inputs, hasSpans }
}

/** An entry of a map: field 1 is the key, field 2 the value. */
function put<T>(
  map: Map<string, T>,
  entry: ProtobufField,
  { fieldsOf, read }: { readonly fieldsOf: FieldReader; readonly read: (value: ProtobufField, key: string) => T },
): void {
  let key = ''
  let value: ProtobufField | null = null
  for (const field of fieldsOf(bytesOf(entry))) {
    if (field.number === 1) key = nameOf(field, 'a name')
    else if (field.number === 2) value = field
  }
  if (value !== null) map.set(key, read(value, key))
}

function readConfigValue(field: ProtobufField, fieldsOf: FieldReader): number | string {
  for (const inner of fieldsOf(bytesOf(field))) {
    if (inner.number === 1) return doubleOf(inner)
    if (inner.number === 2) return nameOf(inner, 'a setting')
  }
  return 0
}

function readChunk(message: Uint8Array, index: number, fieldsOf: FieldReader): Int32Array {
  for (const field of fieldsOf(message)) {
    if (field.number !== 1) {
      throw unsupported(`data[${index}] holds ${field.number === 2 ? 'an image' : 'audio'}, expected tokens alone`)
    }
    for (const inner of fieldsOf(bytesOf(field))) {
      if (inner.number === 1) return int32s(bytesOf(inner), `data[${index}].tokens`)
    }
  }
  return new Int32Array(0)
}

function readTensor(message: Uint8Array, name: string, fieldsOf: FieldReader): LossTensor {
  let bytes: Uint8Array = new Uint8Array(0)
  let dtype = 0
  const shape: number[] = []
  for (const field of fieldsOf(message)) {
    if (field.number === 1) bytes = bytesOf(field)
    else if (field.number === 2) throw unsupported(`${name} is sparse, expected a dense array`)
    else if (field.number === 3) dtype = integerOf(field)
    else if (field.number === 4) append(shape, dimensionsOf(field, name, shape.length))
  }
  if (dtype === FLOAT32) return { values: float32s(bytes, name), isFloat: true, shape }
  if (dtype === INT64) return { values: int64s(bytes, name), isFloat: false, shape }
  if (dtype === INT32) return { values: int32s(bytes, name), isFloat: false, shape }
  throw unsupported(`${name} has element type ${dtype}, expected float32 or int64`)
}

function dimensionsOf(field: ProtobufField, name: string, known: number): number[] {
  const length = typeof field.value === 'number' ? known : field.value.length
  if (length > MAX_SHAPE) throw unsupported(`${name} has more dimensions than a tensor may have`)
  return integersOf(field)
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
