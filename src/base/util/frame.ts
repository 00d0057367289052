/**
 * A message of two parts in one body: a line of JSON, and the bytes behind it.
 */
import { AppError } from '../errors/errors.js'

const encoder = new TextEncoder()
const LINE_FEED = 10
/** Longest line, bytes: it is read on the spot. */
const MAX_HEAD = 64 * 1024

/** What was framed; the bytes are a view. */
export interface Frame {
  readonly head: unknown
  readonly bytes: Uint8Array
}

export function encodeFrame(head: object, bytes: Uint8Array = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  const line = encoder.encode(`${JSON.stringify(head)}\n`)
  const frame = new Uint8Array(line.length + bytes.length)
  frame.set(line)
  frame.set(bytes, line.length)
  return frame
}

/** @throws {AppError} `malformed_frame` */
export function decodeFrame(frame: Uint8Array): Frame {
  const end = frame.subarray(0, MAX_HEAD).indexOf(LINE_FEED)
  try {
    if (end < 0) throw new Error('it has no line')
    return { head: JSON.parse(new TextDecoder().decode(frame.subarray(0, end))), bytes: frame.subarray(end + 1) }
  } catch (cause) {
    throw new AppError('invalid_request', 'malformed_frame', 'the message is no line of JSON with bytes behind it', {
      cause,
    })
  }
}
