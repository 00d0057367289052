/**
 * Messages of training loops that travel as protobuf: `ForwardBackwardRequest` is written, `ForwardBackwardOutput` and
 * `SampleResponse` are read, by the field numbers of the client `tinker` 0.38.0. Arrays are little-endian. Knows the form alone, no loss.
 */
import { bytesOf, doubleOf, integerOf, type ProtobufField, readFields, textOf } from '#base/protobuf/protobuf-reader.js'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { append } from '#base/util/lists.js'

const FLOAT32 = 1
const INT64 = 2

/** A row as the wire has it: all arrays are [T], position i of `tokens` predicts `targets[i]`. */
export interface WireRow {
  readonly tokens: readonly number[]
  readonly targets: readonly number[]
  /** What the loss takes besides, by the wire's names. */
  readonly inputs: Readonly<Record<string, ArrayLike<number>>>
}

/** A request for a loss and, unless it is forward only, its gradients. */
export interface WireLossRequest {
  readonly modelId: string
  readonly seqId: number
  readonly loss: string
  readonly config: Readonly<Record<string, number>>
  readonly isForwardOnly: boolean
  readonly rows: readonly WireRow[]
}

/** What came of it. */
export interface WireLossOutput {
  /** [T] of each row, nats, under `targets`, before any update. */
  readonly logprobs: readonly Float32Array[]
  /** Summed over the rows. */
  readonly loss: number
}

/** One sampled answer. */
export interface WireSequence {
  readonly isStopped: boolean
  readonly tokens: readonly number[]
  readonly logprobs: readonly number[]
}

export function encodeLossRequest(request: WireLossRequest): Uint8Array {
  const message = new ProtobufWriter().string(1, request.modelId).integer(2, request.seqId)
  for (const row of request.rows) {
    const text = new ProtobufWriter().bytes(1, rawBytes(Int32Array.from(row.tokens)))
    const datum = new ProtobufWriter().message(1, new ProtobufWriter().message(1, text))
    datum.message(2, tensorEntry('target_tokens', BigInt64Array.from(row.targets, BigInt), INT64))
    for (const [name, values] of Object.entries(row.inputs)) {
      datum.message(2, tensorEntry(name, Float32Array.from(values), FLOAT32))
    }
    message.message(3, datum)
  }
  message.string(4, request.loss)
  if (request.isForwardOnly) message.integer(6, 1)
  for (const [name, value] of Object.entries(request.config)) {
    message.message(7, new ProtobufWriter().string(1, name).message(2, new ProtobufWriter().double(1, value)))
  }
  return message.finish()
}

/** @throws {InvalidRequestError} `malformed_protobuf` */
export function decodeLossOutput(bytes: Uint8Array): WireLossOutput {
  const logprobs: Float32Array[] = []
  let loss = Number.NaN
  for (const field of readFields(bytes)) {
    if (field.number === 2) append(logprobs, readRecord(field))
    else if (field.number === 3) {
      const { key, value } = readEntry(field)
      if (key === 'loss:sum' && value !== null) loss = doubleOf(value)
    }
  }
  return { logprobs, loss }
}

/** @throws {InvalidRequestError} `malformed_protobuf` */
export function decodeSequences(bytes: Uint8Array): WireSequence[] {
  return [...readFields(bytes)]
    .filter(({ number }) => number === 1)
    .map((field) => {
      let isStopped = true
      let tokens: readonly number[] = []
      let logprobs: readonly number[] = []
      for (const inner of readFields(bytesOf(field))) {
        if (inner.number === 1) isStopped = integerOf(inner) === 0
        else if (inner.number === 2) tokens = [...new Int32Array(aligned(inner))]
        else if (inner.number === 3) logprobs = [...new Float32Array(aligned(inner))]
      }
      return { isStopped, tokens, logprobs }
    })
}

function tensorEntry(name: string, data: Float32Array | BigInt64Array, dtype: number): ProtobufWriter {
  const tensor = new ProtobufWriter().bytes(1, rawBytes(data)).integer(3, dtype).integers(4, [data.length])
  return new ProtobufWriter().string(1, name).message(2, tensor)
}

/** The log-probabilities of an `ArrayRecord`, one array per row. */
function readRecord(record: ProtobufField): Float32Array[] {
  for (const field of readFields(bytesOf(record))) {
    if (field.number !== 2) continue
    const { key, value } = readEntry(field)
    if (key !== 'logprobs' || value === null) continue
    let data = new Float32Array(0)
    let ends: readonly number[] = []
    for (const inner of readFields(bytesOf(value))) {
      if (inner.number === 1) data = new Float32Array(aligned(inner))
      else if (inner.number === 2) ends = [...new BigInt64Array(aligned(inner))].map((end) => Number(end) / 4)
    }
    return ends.slice(1).map((end, i) => data.slice(ends[i], end))
  }
  return []
}

function readEntry(entry: ProtobufField): { readonly key: string; readonly value: ProtobufField | null } {
  let key = ''
  let value: ProtobufField | null = null
  for (const field of readFields(bytesOf(entry))) {
    if (field.number === 1) key = textOf(field)
    else if (field.number === 2) value = field
  }
  return { key, value }
}

/** A copy: views of a message need not lie where typed arrays may begin. */
function aligned(field: ProtobufField): ArrayBuffer {
  return new Uint8Array(bytesOf(field)).buffer
}

function rawBytes({ buffer, byteOffset, byteLength }: Float32Array | Int32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
