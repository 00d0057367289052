/**
 * Records of a table of text: CSV with commas or semicolons, or TSV, as spreadsheets, pandas and databases write them (RFC 4180).
 *
 * A field in quotes may hold separators, line breaks and doubled quotes. Deviation: a quote that is followed by neither a separator
 * nor the end of its record stands for itself, as in `"Well," she said`. Knows nothing of names and rows.
 */

const QUOTE = '"'
/** Longest record, characters: beyond it a quote was opened and never closed. */
const MAX_RECORD = 16 * 1024 * 1024
const SEPARATORS = [',', ';', '\t'] as const

interface TableRecord {
  readonly fields: readonly string[]
  /** Where it begins, from 1. */
  readonly line: number
  /** Whether a quote is open where the text ends. */
  readonly isOpen: boolean
}

/** All records that are not blank. */
export async function* readRecords(chunks: AsyncIterable<string>, separator: string): AsyncGenerator<TableRecord> {
  let text = ''
  let at = 0
  let line = 1
  let wanted = 0
  for await (const chunk of chunks) {
    text = text.slice(at) + chunk
    at = 0
    // what is not whole yet is looked at again when it is twice as long: a long record costs no square of its length
    if (text.length < wanted) continue
    for (let record = nextRecord(text, at, separator, false); record !== null; ) {
      if (!isBlank(record.fields)) yield { fields: record.fields, line, isOpen: false }
      line += countLines(text, at, record.end)
      at = record.end
      record = nextRecord(text, at, separator, false)
    }
    const open = text.length - at
    wanted = 2 * open
    if (open > MAX_RECORD) break
  }
  for (; at < text.length && text.length - at <= MAX_RECORD; ) {
    const record = nextRecord(text, at, separator, true)
    if (record === null) break
    if (record.isOpen || !isBlank(record.fields)) yield { fields: record.fields, line, isOpen: record.isOpen }
    line += countLines(text, at, record.end)
    at = record.end
  }
  if (text.length - at > MAX_RECORD) yield { fields: [], line, isOpen: true }
}

/** The separator by which the first records of a text have the most fields, all the same number; that of the first line else. */
export async function findSeparator(head: string): Promise<string> {
  let best = { separator: ',', fields: 1 }
  for (const separator of SEPARATORS) {
    const widths: number[] = []
    for await (const { fields } of readRecords(once(head), separator)) widths.push(fields.length)
    // the last record may be cut
    const whole = widths.length > 1 ? widths.slice(0, -1) : widths
    const [first = 1] = whole
    const share = whole.filter((width) => width === first).length / whole.length
    if (first > 1 && share >= 0.8 && first > best.fields) best = { separator, fields: first }
  }
  if (best.fields > 1) return best.separator
  const [line = ''] = head.split(/\r?\n/, 1)
  return SEPARATORS.find((separator) => line.includes(separator)) ?? ','
}

async function* once(text: string): AsyncGenerator<string> {
  yield text
}

interface Found {
  readonly fields: readonly string[]
  readonly end: number
  readonly isOpen: boolean
}

/** The record that begins at a place; null where its end is not there yet. */
function nextRecord(text: string, start: number, separator: string, isEnd: boolean): Found | null {
  if (start >= text.length) return null
  const fields: string[] = []
  let at = start
  for (;;) {
    const quoted = text[at] === QUOTE ? readQuoted(text, at, separator, isEnd) : null
    if (quoted === 'more') {
      if (!isEnd) return null
      return { fields: [...fields, text.slice(at + 1)], end: text.length, isOpen: true }
    }
    const end = quoted === null ? endOfPlain(text, at, separator) : quoted.end
    if (end >= text.length && !isEnd) return null
    fields.push(quoted === null ? text.slice(at, end) : quoted.value)
    if (text[end] === separator) {
      at = end + 1
      continue
    }
    if (text[end] === '\r' && end + 1 >= text.length && !isEnd) return null
    return { fields, end: end + (text[end] === '\r' && text[end + 1] === '\n' ? 2 : 1), isOpen: false }
  }
}

/** A field in quotes; null where its quotes are none, `more` where it is not closed. */
function readQuoted(text: string, start: number, separator: string, isEnd: boolean) {
  let value = ''
  for (let from = start + 1; ; ) {
    const quote = text.indexOf(QUOTE, from)
    if (quote < 0 || (quote + 1 >= text.length && !isEnd)) return 'more'
    const next = text[quote + 1]
    value += text.slice(from, quote)
    if (next !== QUOTE) {
      const isClosed = next === undefined || next === separator || next === '\n' || next === '\r'
      return isClosed ? { value, end: quote + 1 } : null
    }
    value += QUOTE
    from = quote + 2
  }
}

function endOfPlain(text: string, start: number, separator: string): number {
  const end = separator.charCodeAt(0)
  let at = start
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === end || code === 10 || code === 13) break
  }
  return at
}

function countLines(text: string, start: number, end: number): number {
  let count = 0
  for (let at = start; at < end; at += 1) {
    const char = text.charCodeAt(at)
    if (char === 10 || (char === 13 && text.charCodeAt(at + 1) !== 10)) count += 1
  }
  return count
}

/** Spreadsheets write lines of separators alone behind what they hold. */
function isBlank(fields: readonly string[]): boolean {
  return fields.every((field) => field.trim() === '')
}
