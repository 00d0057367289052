/**
 * A file's bytes in memory, in several arrays where one would not do: it holds at most 4 GiB on Node.js 20, an update of a
 * digest takes 2 GiB, and an optimizer's state may be larger than both.
 */
import { createHash } from 'node:crypto'

/** All bytes of a file in their order. */
export type FileContent = Uint8Array | readonly Uint8Array[]

/** Arrays that `collectContent` makes, so that no more than this is held twice while bytes come. */
const PIECE_BYTES = 64 * 1024 ** 2
/** Bytes that `bodyOf` gives at a time. */
const CHUNK_BYTES = 1024 ** 2

export function piecesOf(content: FileContent): readonly Uint8Array[] {
  return content instanceof Uint8Array ? [content] : content
}

export function sizeOf(content: FileContent): number {
  return piecesOf(content).reduce((sum, { byteLength }) => sum + byteLength, 0)
}

/** Hexadecimal, lower case. */
export function sha256Of(content: FileContent): string {
  const hash = createHash('sha256')
  for (const piece of piecesOf(content)) {
    for (let start = 0; start < piece.length; start += PIECE_BYTES)
      hash.update(piece.subarray(start, start + PIECE_BYTES))
  }
  return hash.digest('hex')
}

/** A copy of `length` bytes from `offset` on, or of those there are. */
export function copyOf(content: FileContent, offset = 0, length = Number.POSITIVE_INFINITY): Uint8Array<ArrayBuffer> {
  // not `slice`, which gives a view where the array is a Buffer
  if (content instanceof Uint8Array) return new Uint8Array(content.subarray(offset, offset + length))
  const copy = new Uint8Array(Math.max(0, Math.min(length, sizeOf(content) - offset)))
  let startBytes = 0
  for (const piece of content) {
    const part = piece.subarray(Math.max(0, offset - startBytes), Math.max(0, offset + copy.length - startBytes))
    if (part.length > 0) copy.set(part, Math.max(0, startBytes - offset))
    startBytes += piece.length
  }
  return copy
}

/** What one `fetch` sends: an array as it is, more in small chunks. */
export function bodyOf(content: FileContent): Pick<RequestInit, 'body' | 'duplex'> {
  const sizeBytes = sizeOf(content)
  if (sizeBytes <= CHUNK_BYTES) return { body: copyOf(content) }
  return { body: ReadableStream.from(chunksOf(content, CHUNK_BYTES)), duplex: 'half' }
}

/** Reads a stream to its end: one array where `PIECE_BYTES` are enough. */
export async function collectContent(stream: AsyncIterable<Uint8Array>): Promise<FileContent> {
  const pieces: Uint8Array[] = []
  let chunks: Uint8Array[] = []
  let heldBytes = 0
  const join = (): void => {
    pieces.push(copyOf(chunks))
    chunks = []
    heldBytes = 0
  }
  for await (const chunk of stream) {
    chunks.push(chunk)
    heldBytes += chunk.length
    if (heldBytes >= PIECE_BYTES) join()
  }
  if (heldBytes > 0 || pieces.length === 0) join()
  const [only, ...more] = pieces
  return only !== undefined && more.length === 0 ? only : pieces
}

/** The bytes in arrays of at most `sizeBytes`; small neighbours come as one. */
export function* chunksOf(content: FileContent, sizeBytes: number): Generator<Uint8Array> {
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  for (const piece of piecesOf(content)) {
    if (waitingBytes + piece.length > sizeBytes && waitingBytes > 0) {
      yield copyOf(waiting)
      waiting = []
      waitingBytes = 0
    }
    if (piece.length < sizeBytes) {
      waiting.push(piece)
      waitingBytes += piece.length
      continue
    }
    for (let start = 0; start < piece.length; start += sizeBytes) yield piece.subarray(start, start + sizeBytes)
  }
  if (waitingBytes > 0) yield copyOf(waiting)
}
