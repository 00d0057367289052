/**
 * `--map`: what columns of a file are called for. Knows nothing of files.
 */
import { ExpectedError } from '../config/parse-value.js'

/** Columns by the name that they are to have. */
export type ColumnMap = ReadonlyMap<string, string>

/** Names that rows are read by. */
const FIELDS = [
  ...['prompt', 'completion', 'answer', 'messages', 'chosen', 'rejected', 'label', 'system', 'tools', 'weight'],
  ...['text', 'conversations'],
] as const
/** Of these a text is read, whatever a table holds: a label may be a number. */
export const TEXTS: ReadonlySet<string> = new Set(['prompt', 'completion', 'answer', 'chosen', 'rejected'])
/** @example parseMap('text=prompt,label=completion') @throws {ExpectedError} */
export function parseMap(text: string): ColumnMap {
  const map = new Map<string, string>()
  for (const part of text.split(',')) {
    const [column = '', field = '', ...rest] = part.split('=').map((name) => name.trim())
    if (column === '' || field === '' || rest.length > 0 || map.has(column)) {
      throw new ExpectedError('columns with the names they are read by, as text=prompt,label=completion')
    }
    if (!FIELDS.includes(field as (typeof FIELDS)[number])) {
      throw new ExpectedError(`${column}=<name>, one of ${FIELDS.join(', ')}`)
    }
    if ([...map.values()].includes(field)) throw new ExpectedError(`each name once, and ${field} is given twice`)
    map.set(column, field)
  }
  return map
}

/** `text as prompt, label as completion` */
export function describeMap(map: ColumnMap): string {
  return [...map].map(([column, field]) => `${column} as ${field}`).join(', ')
}
