/**
 * Results of the Tinker API that travel as protobuf: `ForwardBackwardOutput` and `SampleResponse`, by the field numbers of the client
 * `tinker` 0.38.0. Arrays are little-endian.
 */
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'

const FLOAT32 = 1
/** What the client expects in cells of alternatives that there are not. */
const EMPTY_LOGPROB = -99_999

/** What a forward pass says of its rows. */
export interface LossOutput {
  /** Log-probabilities under the target tokens, one array per row, before any update. */
  readonly logprobs: readonly Float32Array[]
  /** Names as `loss:sum`: the client merges parts of a request by what stands behind the colon. */
  readonly metrics: Readonly<Record<string, number>>
}

export function encodeLossOutput({ logprobs, metrics }: LossOutput): Uint8Array {
  const offsets = new BigInt64Array(logprobs.length + 1)
  logprobs.forEach((row, i) => {
    offsets[i + 1] = (offsets[i] as bigint) + BigInt(row.byteLength)
  })
  const data = new Float32Array(logprobs.reduce((sum, { length }) => sum + length, 0))
  logprobs.forEach((row, i) => {
    data.set(row, Number(offsets[i]) / Float32Array.BYTES_PER_ELEMENT)
  })
  const tensor = new ProtobufWriter().bytes(1, bytesOf(data)).bytes(2, bytesOf(offsets)).integer(3, FLOAT32)
  const entry = new ProtobufWriter().string(1, 'logprobs').message(2, tensor)
  const record = new ProtobufWriter().message(2, entry).integer(3, logprobs.length)
  const output = new ProtobufWriter().string(1, 'TorchLossReturn').message(2, record)
  for (const [name, value] of Object.entries(metrics)) {
    output.message(3, new ProtobufWriter().string(1, name).double(2, value))
  }
  return output.finish()
}

/** Alternatives of positions, best first; a position may have fewer than the others, or none. */
export type Alternatives = readonly (readonly { readonly id: number; readonly logprob: number }[])[]

/** One answer. */
export interface SampledOutput {
  readonly isStopped: boolean
  readonly tokens: readonly number[]
  readonly logprobs: readonly number[]
  /** Null: nobody asked. */
  readonly alternatives: Alternatives | null
}

export interface SampleOutput {
  readonly sequences: readonly SampledOutput[]
  /** Of each prompt token; NaN where there is none. Null: nobody asked. */
  readonly promptLogprobs: readonly number[] | null
  readonly promptAlternatives: Alternatives | null
  readonly cachedTokens: number
  /** Columns of alternatives. */
  readonly alternativeCounts: { readonly prompt: number; readonly sample: number }
}

export function encodeSampleOutput(output: SampleOutput): Uint8Array {
  const message = new ProtobufWriter()
  const { prompt, sample } = output.alternativeCounts
  for (const { isStopped, tokens, logprobs, alternatives } of output.sequences) {
    const sequence = new ProtobufWriter()
      .integer(1, isStopped ? 0 : 1)
      .bytes(2, bytesOf(Int32Array.from(tokens)))
      .bytes(3, bytesOf(Float32Array.from(logprobs)))
    if (alternatives !== null) sequence.message(4, encodeAlternatives(alternatives, sample))
    message.message(1, sequence)
  }
  if (output.promptLogprobs !== null) message.bytes(2, bytesOf(Float32Array.from(output.promptLogprobs)))
  if (output.promptAlternatives !== null) message.message(3, encodeAlternatives(output.promptAlternatives, prompt))
  return message.integer(4, output.cachedTokens).finish()
}

function encodeAlternatives(positions: Alternatives, count: number): ProtobufWriter {
  const ids = new Int32Array(positions.length * count)
  const logprobs = new Float32Array(positions.length * count).fill(EMPTY_LOGPROB)
  positions.forEach((alternatives, position) => {
    alternatives.slice(0, count).forEach(({ id, logprob }, rank) => {
      ids[position * count + rank] = id
      logprobs[position * count + rank] = logprob
    })
  })
  const message = new ProtobufWriter().bytes(1, bytesOf(ids)).bytes(2, bytesOf(logprobs))
  return message.integer(3, count).integer(4, positions.length)
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Int32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
