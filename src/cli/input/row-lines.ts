/**
 * Reads files of rows line by line: of any size, plain or compressed with gzip. A file that turns out not to be JSON Lines (one
 * JSON array, objects over several lines) is read as a whole.
 */
import { createInterface } from 'node:readline'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { createGunzip } from 'node:zlib'
import { type ForeignFile, findTable, sniffed } from '#base/foreign-file.js'
import { parseExactRow } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { findForeignFile } from '#contract/wire/training/row-forms.js'
import { UsageError } from '../terminal/errors.js'
import { messageOf, refuseForeign } from './input-file.js'

/** A line that is not blank, with its number from 1. */
export interface RowLine {
  readonly text: string
  readonly number: number
}

/** A row, or what is wrong with it, and where it stands: `file:line`, or `file[index]` in an array. */
export interface PlacedRow {
  readonly where: string
  readonly row: JsonObject | string
  /** Whether it is a line of JSON Lines. */
  readonly isLine: boolean
}

/**
 * The lines of a file, a byte order mark removed.
 *
 * @param name the file's name in messages
 * @throws {UsageError} `input_invalid` for a file of another kind, and a gzip file that cannot be decompressed
 */
export async function* readRowLines(data: Blob, name: string): AsyncGenerator<RowLine> {
  let number = 0
  let isFirst = true
  const refuse = (foreign: ForeignFile): never => refuseForeign(name, foreign)
  try {
    for await (const line of linesOf(await openText(data, refuse))) {
      number += 1
      const text = number === 1 && line.startsWith('\ufeff') ? line.slice(1) : line
      if (text.trim() === '') continue
      const table = isFirst ? findTable(text) : null
      if (table !== null) refuse(table)
      isFirst = false
      yield { text, number }
    }
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && String(cause.code).startsWith('Z_'))) throw cause
    throw new UsageError(
      'input_invalid',
      `${name} begins like a gzip file but cannot be decompressed: ${cause.message}`,
      { hint: 'compress the file again, or give it uncompressed', cause },
    )
  }
}

/**
 * The rows of JSON Lines, of one JSON array, or of objects that are written over several lines. Only JSON Lines are read as they come.
 *
 * @throws {UsageError} as `readRowLines`; `input_invalid` for a document that is not valid JSON
 */
export async function* readAnyRows(data: Blob, name: string): AsyncGenerator<PlacedRow> {
  const document: string[] = []
  let isFirst = true
  for await (const { text, number } of readRowLines(data, name)) {
    const isDocument = document.length > 0 || (isFirst && findForeignFile(text) !== null)
    isFirst = false
    if (isDocument) document.push(text)
    else yield { where: `${name}:${number}`, row: parseRow(text), isLine: true }
  }
  if (document.length === 0) return
  const rows = rowsOfDocument(document, name)
  for (const [i, row] of rows.entries()) {
    yield { where: `${name}[${i}]`, row: isJsonObject(row) ? row : 'must be a JSON object', isLine: false }
  }
}

/** The object of a line, or what is wrong. */
export function parseRow(line: string): JsonObject | string {
  let row: JsonValue
  try {
    row = parseExactRow(line)
  } catch (error) {
    return `not valid JSON: ${describeJsonFault(line) ?? messageOf(error)}`
  }
  if (Array.isArray(row)) return 'must be a JSON object, got an array; JSON Lines have one object a line'
  return isJsonObject(row) ? row : 'must be a JSON object'
}

/** One array, one object, or one object after the other, each of which ends with a brace in a line of its own. */
function rowsOfDocument(lines: readonly string[], name: string): readonly JsonValue[] {
  try {
    const value = parseExactRow(lines.join('\n'))
    return Array.isArray(value) ? value : [value]
  } catch (cause) {
    const ends = lines.flatMap((line, i) => (line.trimEnd() === '}' ? [i + 1] : []))
    try {
      if (ends.length > 1 && ends.at(-1) === lines.length) {
        return ends.map((end, i) => parseExactRow(lines.slice(ends[i - 1] ?? 0, end).join('\n')))
      }
    } catch {
      // the fault of the whole says more
    }
    const fault = describeJsonFault(lines.join('\n')) ?? messageOf(cause)
    throw new UsageError('input_invalid', `${name} is not valid JSON: ${fault}`, { cause })
  }
}

/** Lines of a text. Ends with an error where its input does: readline alone goes on waiting, or ends as if all had come, by the version of Node. */
async function* linesOf(input: Readable): AsyncGenerator<string> {
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  let failure: Error | null = null
  input.on('error', (error) => {
    failure = error
    lines.close()
  })
  try {
    yield* lines
  } finally {
    // also where nobody reads on
    input.destroy()
  }
  if (failure !== null) throw failure
}

/** The rows as text; a file that begins like a gzip file is decompressed on the way. @param refuse throws */
async function openText(data: Blob, refuse: (foreign: ForeignFile) => never): Promise<Readable> {
  const bytes = Readable.fromWeb(data.stream() as ReadableStream)
  const [first, second] = new Uint8Array(await data.slice(0, 2).arrayBuffer())
  if (first !== 0x1f || second !== 0x8b) return Readable.from(sniffed(bytes, refuse), { objectMode: false })
  const content = createGunzip()
  // an error of either ends both, and is thrown where the lines are read
  pipeline(bytes, content, () => undefined)
  return Readable.from(sniffed(content, refuse), { objectMode: false })
}
