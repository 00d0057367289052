/**
 * Lines of a byte stream with their numbers, for JSON Lines files of any size: memory is one chunk plus one line.
 *
 * A leading UTF-8 byte order mark and the carriage return before a line feed are dropped. Invalid UTF-8 and lines beyond the
 * limit are errors with the line's number; a file of another kind is named (`base/foreign-file.ts`).
 */
import { DataError, type ErrorOptions } from '#base/errors/errors.js'
import { type ForeignFile, sniffed } from '#base/foreign-file.js'

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
/** Longest line that is read into memory. */
export const DEFAULT_MAX_LINE_BYTES = 64 * 1024 * 1024

/** One line without its terminator. */
export interface Line {
  /** Counted from 1, blank lines included. */
  readonly number: number
  readonly text: string
  /** False for a last line without line feed, which may be cut off. */
  readonly isTerminated: boolean
}

/** Rows of a file: its bytes, or its lines in an order of their own. */
export type RowSource = AsyncIterable<Uint8Array> | { readonly lines: AsyncIterable<Line> }

/** Limits of the reader. */
export interface LineOptions {
  readonly maxLineBytes?: number | undefined
}

/**
 * Splits a byte stream into lines.
 *
 * @throws {DataError} `not_json_lines` for a file of another kind, `invalid_encoding` (UTF-16, or bytes that are not UTF-8),
 *   `line_too_long`; `details.line` has the number
 */
export async function* readLines(source: AsyncIterable<Uint8Array>, options: LineOptions = {}): AsyncGenerator<Line> {
  const maxLineBytes = options.maxLineBytes ?? DEFAULT_MAX_LINE_BYTES
  let parts: Uint8Array[] = []
  let pendingBytes = 0
  let number = 1
  for await (const chunk of sniffed(source, refuseFile, { isPlain: true })) {
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED, start); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      assertLength(pendingBytes + end - start, maxLineBytes, number)
      yield { number, text: decodeLine([...parts, chunk.subarray(start, end)], number), isTerminated: true }
      parts = []
      pendingBytes = 0
      number += 1
      start = end + 1
    }
    if (start < chunk.length) {
      parts.push(chunk.slice(start))
      pendingBytes += chunk.length - start
      assertLength(pendingBytes, maxLineBytes, number)
    }
  }
  if (pendingBytes > 0) yield { number, text: decodeLine(parts, number), isTerminated: false }
}

/** The lines that begin within so many bytes. */
export async function* headOf(source: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let left = maxBytes
  for await (const chunk of source) {
    left -= chunk.length
    const end = left >= 0 ? -1 : chunk.indexOf(LINE_FEED, Math.max(0, chunk.length + left))
    if (end === -1) yield chunk
    else {
      yield chunk.subarray(0, end + 1)
      return
    }
  }
}

/** An error about one line; the message names it and `details.line` carries it. */
export function lineError(
  code: string,
  line: number,
  problem: string,
  { cause, hint }: Pick<ErrorOptions, 'cause' | 'hint'> = {},
): DataError {
  return new DataError(code, `Line ${line} ${problem}.`, { details: { line }, cause, hint })
}

/** @throws {DataError} `not_json_lines`, `invalid_encoding` */
export function refuseFile({ problem, hint, kind }: ForeignFile): never {
  const code = kind === 'encoding' ? 'invalid_encoding' : 'not_json_lines'
  throw new DataError(code, `The file ${problem}.`, { details: { line: 1 }, hint })
}

function assertLength(bytes: number, maxLineBytes: number, number: number): void {
  if (bytes > maxLineBytes) throw lineError('line_too_long', number, `is longer than ${maxLineBytes} bytes`)
}

function decodeLine(parts: readonly Uint8Array[], number: number): string {
  let bytes: Uint8Array = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
  if (number === 1) bytes = withoutByteOrderMark(bytes)
  if (bytes.at(-1) === CARRIAGE_RETURN) bytes = bytes.subarray(0, -1)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw lineError('invalid_encoding', number, 'is not valid UTF-8', { cause })
  }
}

function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}
