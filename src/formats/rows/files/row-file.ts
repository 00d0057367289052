/**
 * Rows of a file as people have it: JSON Lines, one JSON array, objects over several lines, CSV, TSV and Parquet, each plain or
 * compressed with gzip. What it is stands in its first bytes; a name that ends with .csv or .tsv is believed where they leave it open.
 *
 * JSON Lines and tables of text are read as they come, of any size. Knows nothing of what rows are for.
 */
import { createInterface } from 'node:readline'
import { pipeline, Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { createGunzip } from 'node:zlib'
import { InvalidRequestError } from '#base/errors/errors.js'
import { type ForeignFile, findTable, sniffed } from '#base/foreign-file.js'
import { parseExact, parseExactRow } from '#base/json/exact-json.js'
import { describeJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { findForeignFile } from '#contract/wire/training/row-forms.js'
import { findSeparator, readRecords } from './delimited.js'
import { readParquet } from './parquet.js'

/** A line that is not blank, with its number from 1. */
export interface RowLine {
  readonly text: string
  readonly number: number
}

/** A row, or what is wrong with it, and where it stands: `file:line`, or `file[index]` in an array and in Parquet. */
export interface PlacedRow {
  readonly where: string
  readonly row: JsonObject | string
  /** A line of JSON Lines or of text, part of a JSON document, or a record whose columns have names. */
  readonly kind: 'line' | 'document' | 'record'
  /** A line as it stands, which may be no JSON. */
  readonly text?: string
}

/** Names by which a first line is known to be that of a table, whatever the file is called. */
const COLUMN_NAMES: ReadonlySet<string> = new Set([
  ...['text', 'label', 'prompt', 'completion', 'question', 'answer', 'instruction', 'input', 'output', 'response'],
  ...['chosen', 'rejected', 'messages', 'conversations', 'query', 'category', 'context'],
])
const TABLE_NAME = /\.(?:csv|tsv|tab)(?:\.gz)?$/i
/** Characters by which a table of text is told. */
const HEAD = 64 * 1024

/**
 * The lines of a file, a byte order mark removed.
 *
 * @param name the file's name in messages
 * @throws {InvalidRequestError} `input_invalid` for a file of another kind, and a gzip file that cannot be decompressed
 */
export async function* readRowLines(data: Blob, name: string): AsyncGenerator<RowLine> {
  let isFirst = true
  const text = await openText(data, (foreign) => refuse(name, foreign))
  for await (const { text: line, number } of withoutBlank(throwNamed(linesOf(text), name))) {
    const table = isFirst ? findTable(line) : null
    if (table !== null) refuse(name, table)
    isFirst = false
    yield { text: line, number }
  }
}

/**
 * The rows of a file of any form.
 *
 * @param options.takesText whether lines that are no JSON are wanted, as prompts are
 * @param options.isExact whether every number of JSON keeps its text, and not only those of what prompts are made of
 * @throws {InvalidRequestError} `input_invalid` as `readRowLines`, for a document that is not valid JSON, and a table without rows;
 *   `input_unreadable` for text that is not UTF-8
 */
export async function* readAnyRows(
  data: Blob,
  name: string,
  { takesText = false, isExact = false }: { readonly takesText?: boolean; readonly isExact?: boolean } = {},
): AsyncGenerator<PlacedRow> {
  const whole = await wholeParquet(data, name)
  if (whole !== null) return yield* parquetRows(whole, name)
  const text = await openText(data, (foreign) => refuse(name, foreign))
  const { head, all } = await withHead(throwNamed(decoded(text, name), name))
  if (await beginsTable(head, { name, takesText })) return yield* tableRows(all, { head, name })
  const document: RowLine[] = []
  const parse = isExact ? parseExact : parseExactRow
  const toRow = ({ text: line, number }: RowLine): PlacedRow => {
    return { where: `${name}:${number}`, row: parseRow(line, parse), kind: 'line', text: line }
  }
  let isFirst = true
  for await (const line of withoutBlank(linesOf(Readable.from(all)))) {
    const isDocument = document.length > 0 || (isFirst && findForeignFile(line.text) !== null)
    isFirst = false
    if (isDocument) document.push(line)
    else yield toRow(line)
  }
  if (document.length === 0) return
  const rows = rowsOfDocument(
    document.map(({ text: line }) => line),
    name,
    { isMaybeText: takesText && document[0]?.text.trimStart().startsWith('[') === true, parse },
  )
  // a prompt may begin with a bracket
  if (rows === null) return yield* document.map(toRow)
  for (const [i, row] of rows.entries()) {
    yield { where: `${name}[${i}]`, row: isJsonObject(row) ? row : 'must be a JSON object', kind: 'document' }
  }
}

/** The object of a line, or what is wrong. */
export function parseRow(line: string, parse = parseExactRow): JsonObject | string {
  let row: JsonValue
  try {
    row = parse(line)
  } catch (error) {
    return `not valid JSON: ${describeJsonFault(line) ?? (error as Error).message}`
  }
  if (Array.isArray(row)) return 'must be a JSON object, got an array; JSON Lines have one object a line'
  return isJsonObject(row) ? row : 'must be a JSON object'
}

/** Whether a file is a table with named columns. @throws {InvalidRequestError} as `readAnyRows` */
export async function isTable(data: Blob, name: string): Promise<boolean> {
  for await (const { kind } of readAnyRows(data, name)) return kind === 'record'
  return false
}

/** Whether a text begins with the names of columns. */
async function beginsTable(
  head: string,
  { name, takesText }: { readonly name: string; readonly takesText: boolean },
): Promise<boolean> {
  const start = head.trimStart()
  if (start === '' || start.startsWith('{') || start.startsWith('[')) return false
  if (TABLE_NAME.test(name)) return true
  const [line = ''] = start.split(/\r?\n/, 1)
  // pandas leaves the name of its index empty
  if (findTable(line.replace(/^[,;]/, '')) === null) return false
  if (!takesText) return true
  const separator = await findSeparator(start)
  const [header, first] = await firstRecords(start, separator)
  const isNamed = header?.some((field) => COLUMN_NAMES.has(field.trim().toLowerCase())) === true
  return isNamed && first?.length === header.length
}

async function firstRecords(head: string, separator: string): Promise<readonly (readonly string[])[]> {
  const records: (readonly string[])[] = []
  for await (const { fields } of readRecords(Readable.from([head]), separator)) {
    records.push(fields)
    if (records.length === 2) break
  }
  return records
}

async function* tableRows(
  all: AsyncIterable<string>,
  { head, name }: { readonly head: string; readonly name: string },
): AsyncGenerator<PlacedRow> {
  const separator = /\.(?:tsv|tab)(?:\.gz)?$/i.test(name) ? '\t' : await findSeparator(head)
  let columns: readonly string[] | null = null
  let count = 0
  for await (const { fields, line, isOpen } of readRecords(all, separator)) {
    if (columns === null) {
      columns = columnNames(fields, name)
      continue
    }
    const row = isOpen ? 'opens a quote that is never closed' : recordOf(fields, columns)
    count += 1
    yield { where: `${name}:${line}`, row, kind: 'record' }
  }
  if (count > 0) return
  throw new InvalidRequestError('input_invalid', `${name} holds the names of columns and no row`)
}

/** Names of columns, those that everybody uses in lower case. @throws {InvalidRequestError} where one stands twice */
function columnNames(fields: readonly string[], name: string): readonly string[] {
  const names = fields.map((field) => {
    const trimmed = field.trim()
    return COLUMN_NAMES.has(trimmed.toLowerCase()) ? trimmed.toLowerCase() : trimmed
  })
  const twice = names.find((each, i) => each !== '' && names.indexOf(each) !== i)
  if (twice === undefined) return names
  throw new InvalidRequestError('input_invalid', `${name} names the column "${twice}" twice in its first line`, {
    hint: 'give each column a name of its own',
  })
}

function recordOf(fields: readonly string[], columns: readonly string[]): JsonObject | string {
  // a separator at the end of a line makes no field
  const isWhole = fields.length === columns.length || (fields.length === columns.length + 1 && fields.at(-1) === '')
  if (!isWhole) {
    return `has ${fields.length} ${fields.length === 1 ? 'field' : 'fields'} under ${columns.length} columns; a text with separators or line breaks stands in quotes`
  }
  const row: Record<string, JsonValue> = {}
  for (const [i, column] of columns.entries()) {
    // pandas writes the numbers of rows under no name
    if (column === '') continue
    const field = fields[i] ?? ''
    const value = turnsIn(field)
    if (value === undefined) {
      return `${column}: is a list as Python prints it, expected JSON; to_json('rows.jsonl', orient='records', lines=True) of pandas keeps it`
    }
    row[column] = value
  }
  return row
}

/** Turns, which tables hold as JSON text, and any other field as it stands; undefined for a list that Python printed. */
function turnsIn(field: string): JsonValue | undefined {
  if (/^\s*\[\s*\{'(?:role|content|from|value)'/.test(field)) return undefined
  if (!/^\s*\[\s*\{/.test(field)) return field
  try {
    const list = parseExactRow(field)
    const isTurns = (each: JsonValue): boolean => isJsonObject(each) && ('role' in each || 'from' in each)
    return Array.isArray(list) && list.every(isTurns) ? list : field
  } catch {
    return field
  }
}

/** A Parquet table as bytes that can be read anywhere; null for any other file. */
async function wholeParquet(data: Blob, name: string): Promise<Blob | null> {
  const isParquet = async (blob: Blob): Promise<boolean> => (await blob.slice(0, 4).text()) === 'PAR1'
  if (await isParquet(data)) return data
  if (!(await isGzip(data))) return null
  const parts: Uint8Array<ArrayBuffer>[] = []
  for await (const part of throwNamed(gunzipped(data), name)) {
    if (parts.length === 0 && Buffer.from(part.subarray(0, 4)).toString('latin1') !== 'PAR1') return null
    parts.push(part as Uint8Array<ArrayBuffer>)
  }
  return new Blob(parts)
}

async function* parquetRows(data: Blob, name: string): AsyncGenerator<PlacedRow> {
  let i = 0
  try {
    for await (const row of readParquet(data)) yield { where: `${name}[${i++}]`, row, kind: 'record' }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : 'unknown reason'
    throw new InvalidRequestError(
      'input_invalid',
      `${name} begins like a Parquet table but cannot be read: ${reason}`,
      { hint: 'the file may be cut off: write or download it again', cause },
    )
  }
}

/** One array, one object, or one after the other, each ended by a brace in a line of its own; null for what may be text. */
function rowsOfDocument(
  lines: readonly string[],
  name: string,
  { isMaybeText, parse }: { readonly isMaybeText: boolean; readonly parse: typeof parseExact },
): readonly JsonValue[] | null {
  try {
    const value = parse(lines.join('\n'))
    return Array.isArray(value) ? value : [value]
  } catch (cause) {
    const ends = lines.flatMap((line, i) => (line.trimEnd() === '}' ? [i + 1] : []))
    try {
      if (ends.length > 1 && ends.at(-1) === lines.length) {
        return ends.map((end, i) => parse(lines.slice(ends[i - 1] ?? 0, end).join('\n')))
      }
    } catch {
      // the fault of the whole says more
    }
    if (isMaybeText) return null
    const fault = describeJsonFault(lines.join('\n')) ?? (cause as Error).message
    throw new InvalidRequestError('input_invalid', `${name} is not valid JSON: ${fault}`, { cause })
  }
}

async function* withoutBlank(lines: AsyncIterable<string>): AsyncGenerator<RowLine> {
  let number = 0
  for await (const line of lines) {
    number += 1
    const text = number === 1 && line.startsWith('\ufeff') ? line.slice(1) : line
    if (text.trim() !== '') yield { text, number }
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

/** The first characters of a text, and the whole of it. */
async function withHead(text: AsyncGenerator<string>): Promise<{ head: string; all: AsyncGenerator<string> }> {
  let head = ''
  for (let next = await text.next(); ; next = await text.next()) {
    if (next.done === true) break
    head += next.value
    if (head.length >= HEAD) break
  }
  async function* join(): AsyncGenerator<string> {
    yield head
    yield* text
  }
  return { head, all: join() }
}

/** @throws {InvalidRequestError} `input_unreadable` for bytes that are not UTF-8 */
async function* decoded(bytes: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<string> {
  // a byte order mark is dropped
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const decode = (part?: Uint8Array): string => {
    try {
      return part === undefined ? decoder.decode() : decoder.decode(part, { stream: true })
    } catch (cause) {
      throw new InvalidRequestError('input_unreadable', `${name} is not UTF-8 text`, {
        hint: 'save it as UTF-8; what a spreadsheet writes is often: iconv -f WINDOWS-1252 -t UTF-8',
        cause,
      })
    }
  }
  for await (const part of bytes) yield decode(part)
  yield decode()
}

/** The rows as text; a file that begins like a gzip file is decompressed on the way. @param refused throws */
async function openText(data: Blob, refused: (foreign: ForeignFile) => never): Promise<Readable> {
  const bytes = (await isGzip(data)) ? gunzipped(data) : Readable.fromWeb(data.stream() as ReadableStream)
  return Readable.from(sniffed(bytes, refused), { objectMode: false })
}

async function isGzip(data: Blob): Promise<boolean> {
  const [first, second] = new Uint8Array(await data.slice(0, 2).arrayBuffer())
  return first === 0x1f && second === 0x8b
}

function gunzipped(data: Blob): Readable {
  const content = createGunzip()
  // an error of either ends both, and is thrown where the content is read
  pipeline(Readable.fromWeb(data.stream() as ReadableStream), content, () => undefined)
  return content
}

/** @throws {InvalidRequestError} `input_invalid` in place of an error of zlib */
async function* throwNamed<T>(parts: AsyncIterable<T>, name: string): AsyncGenerator<T> {
  try {
    yield* parts
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && String(cause.code).startsWith('Z_'))) throw cause
    throw new InvalidRequestError(
      'input_invalid',
      `${name} begins like a gzip file but cannot be decompressed: ${cause.message}`,
      { hint: 'compress the file again, or give it uncompressed', cause },
    )
  }
}

function refuse(name: string, { problem, hint }: ForeignFile): never {
  throw new InvalidRequestError('input_invalid', `${name} ${problem}`, { hint })
}
