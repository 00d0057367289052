/**
 * What a loss of rows came to, as protobuf: `ForwardBackwardOutput`, by the field numbers of the client `tinker` 0.38.0.
 * Arrays are little-endian.
 */
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'

const FLOAT32 = 1

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

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Int32Array | BigInt64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
