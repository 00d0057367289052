/**
 * From a row of a table of settings to what the command line needs of it: flag, variables, help with its default, and how its
 * text is read. Knows no setting; `schema.ts` puts the tables together.
 */
import type { SettingRow } from '#contract/settings/setting.js'
import {
  formatDuration,
  formatSize,
  parseBoolean,
  parseChoice,
  parseDurationBetween,
  parseDurationMs,
  parseList,
  parseSize,
  parseText,
  parseUrl,
  parseWhole,
} from './parse-value.js'

/** One setting; `T` is the type of its value. */
export interface Setting<T> {
  /** Shown in help and errors: `url`, `path`, `duration`… */
  readonly type: SettingRow['type']
  readonly default: T
  /** Unit of a numeric value, for help. */
  readonly unit?: string
  /** Environment variables, the first one set wins. */
  readonly env: readonly string[]
  /** As commander spells it; null: no flag exists. */
  readonly flag: string | null
  /** Global flags belong to every command, service flags to `serve`. */
  readonly usedBy: 'client' | 'service'
  /** Shown before the advanced flags. */
  readonly isCommon: boolean
  /** Never printed in full. */
  readonly isSecret?: boolean
  readonly summary: string
  /** Text from a flag, a variable or the file → value; throws a plain sentence fragment such as `a URL`. */
  readonly parse: (text: string) => T
}

export function toSetting(row: SettingRow, usedBy: 'client' | 'service'): Setting<unknown> {
  const unit = unitOf(row)
  return Object.freeze({
    type: row.type,
    default: row.default,
    ...(unit === undefined ? {} : { unit }),
    env: row.env ?? [`TRAINYARD_${row.key.toUpperCase().replaceAll('-', '_')}`],
    flag: row.flag === undefined ? [`--${row.key}`, placeholderOf(row)].join(' ').trim() : row.flag,
    usedBy,
    isCommon: row.isCommon === true,
    ...(row.isSecret === undefined ? {} : { isSecret: row.isSecret }),
    summary: [row.summary, ...addedTo(row)].join('; '),
    parse: parserOf(row),
  })
}

/** What help says after the sentence: the default, or that it may be given often. */
function addedTo(row: SettingRow): readonly string[] {
  if (row.type === 'list') return ['repeatable']
  const words = row.whenAbsent ?? defaultInWords(row)
  return words === null ? [] : [`default ${words}`]
}

/** Null for a default that is not said: of texts, switches and choices `config list` shows it. */
function defaultInWords(row: SettingRow): string | null {
  if (row.default === null) return null
  if (row.type === 'size') return formatSize(row.default)
  if (row.type === 'duration') return row.hidesDefault === true ? null : formatDuration(row.default)
  if (row.type === 'integer') return row.hidesDefault === true ? null : String(row.default)
  return null
}

function unitOf(row: SettingRow): string | undefined {
  if (row.type === 'integer') return row.unit
  return { size: 'bytes', duration: 'ms' }[row.type as string]
}

/** The value in a flag's spelling. */
function placeholderOf(row: SettingRow): string {
  if (row.type === 'choice') return `<${row.choices.join('|')}>`
  if (row.type === 'boolean') return ''
  return `<${PLACEHOLDERS[row.type]}>`
}

const PLACEHOLDERS = {
  integer: 'n',
  size: 'size',
  duration: 'duration',
  path: 'dir',
  url: 'url',
  address: 'address',
  text: 'name',
  list: 'name',
} as const

function parserOf(row: SettingRow): (text: string) => unknown {
  switch (row.type) {
    case 'integer':
      return (text) => parseWhole(text, row.bounds)
    case 'size':
      return (text) => parseSize(text, row.bounds)
    case 'duration': {
      const { bounds } = row
      return bounds === undefined ? parseDurationMs : (text) => parseDurationBetween(text, bounds.min, bounds.max)
    }
    case 'choice':
      return (text) => parseChoice(text, row.choices)
    case 'boolean':
      return parseBoolean
    case 'list':
      return parseList
    case 'url':
      return parseUrl
    case 'text':
    case 'path':
    case 'address':
      return parseText
  }
}
