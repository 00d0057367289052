/**
 * Framed messages to and from `trainyard_torch/frames.py`: u32 length of a JSON header (little-endian), the header, then the
 * arrays that it lists, raw.
 */
import type { Readable, Writable } from 'node:stream'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'

/** A message as one side has it: what it says, and tensors by name. */
export interface Message {
  readonly header: Readonly<Record<string, unknown>> & { readonly type: string }
  readonly arrays: Readonly<Record<string, HostTensor>>
}

interface ListedArray {
  readonly name: string
  readonly dtype: 'float32'
  readonly shape: readonly number[]
  readonly bytes: number
}

const LENGTH_BYTES = 4
/** More than any header has; a larger number is not our protocol. */
const MAX_HEADER_BYTES = 64 * 2 ** 20

/** Writes a message. The arrays are read until the other side has answered. */
export function writeMessage(stream: Writable, { header, arrays }: Message): void {
  const listed = Object.entries(arrays).map(([name, { dtype, shape, data }]) => ({
    name,
    dtype,
    shape,
    bytes: data.byteLength,
  }))
  const text = Buffer.from(JSON.stringify({ ...header, arrays: listed }))
  const length = Buffer.alloc(LENGTH_BYTES)
  length.writeUInt32LE(text.length)
  stream.cork()
  stream.write(Buffer.concat([length, text]))
  for (const { data } of Object.values(arrays)) {
    if (data.byteLength > 0) stream.write(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
  }
  stream.uncork()
}

/**
 * Reads messages as they come. Each array is received into memory of its own.
 *
 * @param onError hears once of bytes that are no message; nothing is read after it
 */
export function readMessages(
  stream: Readable,
  onMessage: (message: Message) => void,
  onError: (error: Error) => void,
): void {
  let parts = readParts(onMessage)
  let wanted = nextPart(parts)
  let filled = 0
  stream.on('data', (chunk: Buffer) => {
    try {
      for (let at = 0; at < chunk.length || wanted.length === 0; ) {
        const count = Math.min(chunk.length - at, wanted.length - filled)
        wanted.set(chunk.subarray(at, at + count), filled)
        at += count
        filled += count
        if (filled < wanted.length) return
        wanted = nextPart(parts)
        filled = 0
      }
    } catch (error) {
      parts = readParts(() => undefined)
      stream.destroy()
      onError(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

function nextPart(parts: Generator<Uint8Array, never>): Uint8Array {
  return parts.next().value
}

/** Yields the memory that the next bytes belong in; goes on when it is full. */
function* readParts(onMessage: (message: Message) => void): Generator<Uint8Array, never> {
  for (;;) {
    const length = Buffer.alloc(LENGTH_BYTES)
    yield length
    const count = length.readUInt32LE()
    if (count > MAX_HEADER_BYTES) throw new Error(`a header of ${count} bytes`)
    const text = Buffer.alloc(count)
    yield text
    const { arrays: listed, ...header } = JSON.parse(text.toString()) as Message['header'] & {
      readonly arrays: readonly ListedArray[]
    }
    const arrays: Record<string, HostTensor> = {}
    for (const { name, dtype, shape, bytes } of listed) {
      if (dtype !== 'float32') throw new Error(`an array "${name}" of type ${String(dtype)}`)
      const data = new Float32Array(bytes / Float32Array.BYTES_PER_ELEMENT)
      yield new Uint8Array(data.buffer)
      arrays[name] = { dtype, shape, data }
    }
    onMessage({ header: { ...header, type: header.type }, arrays })
  }
}
