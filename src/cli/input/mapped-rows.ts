/**
 * Rows of a file with their columns under the names that are read: as `--map` says, or, of a table whose names say nothing, by what
 * stands in them. A column of few values that come again and again is a label, and one long text beside it what is labelled.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { nameOf } from '#contract/wire/training/row-forms/convert-rows.js'
import { type PlacedRow, readAnyRows } from '#formats/rows/files/row-file.js'
import { UsageError } from '../terminal/errors.js'
import { type ColumnMap, TEXTS } from './column-map.js'

/** Rows that are looked at for what a column holds. */
const LOOKED_AT = 500
/** A label comes at least so often, on average. */
const LEAST_REPEATED = 3
const MOST_LABELS = 50

interface MapOptions {
  readonly map?: ColumnMap | undefined
  readonly takesText?: boolean
  readonly isExact?: boolean | undefined
  /** Told how columns were recognised by what they hold. */
  readonly onRecognised?: ((map: ColumnMap) => void) | undefined
}

/** @throws {UsageError} `unknown_column` for a column that the first row lacks; {InvalidRequestError} as `readAnyRows` */
export async function* readMappedRows(
  data: Blob,
  name: string,
  { map, takesText = false, isExact = false, onRecognised }: MapOptions = {},
): AsyncGenerator<PlacedRow> {
  const rows = readAnyRows(data, name, { takesText, isExact })
  const first: PlacedRow[] = []
  // rows of a table have the same columns, and their first ones say what these hold
  for (let next = await rows.next(); next.done !== true; next = await rows.next()) {
    first.push(next.value)
    if (next.value.kind !== 'record' || first.length === LOOKED_AT) break
  }
  const own = map ?? recogniseColumns(first)
  if (map !== undefined) assertColumns(map, first, name)
  else if (own !== null) onRecognised?.(own)
  for (const placed of first) yield mapped(placed, own)
  for await (const placed of rows) yield mapped(placed, own)
}

function mapped(placed: PlacedRow, map: ColumnMap | null): PlacedRow {
  const { row } = placed
  if (map === null || !isJsonObject(row)) return placed
  const taken = [...map].find(([column, field]) => row[field] !== undefined && column !== field && !map.has(field))
  if (taken !== undefined) return { ...placed, row: `has ${taken[1]} beside ${taken[0]}, which is mapped to it` }
  const entries = Object.entries(row).map(([column, value]) => {
    const field = map.get(column) ?? column
    return [field, TEXTS.has(field) && isPlainValue(value) ? String(value) : value]
  })
  const { text: _, ...others } = placed
  // what was mapped is no line of the file any more
  return { ...others, kind: placed.kind === 'line' ? 'document' : placed.kind, row: Object.fromEntries(entries) }
}

function assertColumns(map: ColumnMap, rows: readonly PlacedRow[], name: string): void {
  const row = rows.map((placed) => placed.row).find(isJsonObject)
  if (row === undefined) return
  const columns = Object.keys(row)
  const missing = [...map.keys()].find((column) => !columns.includes(column))
  if (missing === undefined) return
  throw new UsageError('unknown_column', `${name} has no column "${missing}", it has ${columns.join(', ')}`, {
    param: '--map',
    suggestion: closest(missing, columns),
  })
}

/** Which column is the text and which its label; null where names say it, or what stands there does not. */
function recogniseColumns(rows: readonly PlacedRow[]): ColumnMap | null {
  const all = rows.map(({ row }) => row).filter(isJsonObject)
  const [first] = all
  if (first === undefined || rows.some(({ kind }) => kind !== 'record')) return null
  if (isKnown(first)) return null
  const columns = Object.keys(first)
  const labels = columns.filter((column) => isLabel(all, column))
  const texts = columns.filter((column) => isLongText(all, column))
  const [label, text] = [labels[0], texts[0]]
  if (labels.length !== 1 || texts.length !== 1 || label === undefined || text === undefined) return null
  return new Map([
    [text, 'prompt'],
    [label, 'completion'],
  ])
}

const isKnown = (row: JsonObject): boolean =>
  (['conversation', 'preference', 'prompt'] as const).some((purpose) => {
    const form = nameOf(row, purpose)
    return form !== null && form !== 'a row of plain text'
  })

function isLabel(rows: readonly JsonObject[], column: string): boolean {
  const values = rows.map((row) => row[column]).filter((value) => isPlainValue(value) && value !== '')
  const kinds = new Set(values)
  return kinds.size > 1 && kinds.size <= MOST_LABELS && values.length >= LEAST_REPEATED * kinds.size
}

function isLongText(rows: readonly JsonObject[], column: string): boolean {
  const values = rows.map((row) => row[column])
  const texts = values.filter((value) => typeof value === 'string' && /\S\s+\S/.test(value))
  return texts.length > values.length / 2 && new Set(texts).size > texts.length / 2
}

function isPlainValue(value: JsonValue | undefined): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}
