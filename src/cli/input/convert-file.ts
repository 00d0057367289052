/**
 * A file of rows in any known form as JSON Lines that a command reads, and what was found in it.
 */
import { AppError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import type { JsonObject } from '#base/util/json.js'
import { command } from '#contract/wire/command-words.js'
import { createRowConverter, purposeOf, type RowConverter } from '#contract/wire/training/row-forms/convert-rows.js'
import { LABELLED_NAME, type RowKind } from '#contract/wire/training/row-forms/forms.js'
import { CONVERT_TARGETS, type RowPurpose } from '#contract/wire/training/row-forms/purposes.js'
import { unreadOfRow } from '#contract/wire/training/row-forms/read-fields.js'
import { isTable } from '#formats/rows/files/row-file.js'
import { UsageError } from '../terminal/errors.js'
import { plural } from '../terminal/format.js'
import { type ColumnMap, describeMap } from './column-map.js'
import { createProblems } from './input-file.js'
import { readMappedRows } from './mapped-rows.js'

/** What was converted. */
export interface ConvertedFile {
  readonly purpose: RowPurpose
  readonly read: number
  readonly written: number
  /** Rows that were not yet lines of their kind. */
  readonly changed: number
  /** Rows that train nothing. */
  readonly leftOut: number
  /** Rows by the name of the form they had, the most frequent first. */
  readonly forms: readonly { readonly form: string; readonly rows: number }[]
  /** Columns that were recognised by what they hold. */
  readonly recognised: ColumnMap | null
  /** Fields of converted rows that no job reads, in the order they came. */
  readonly unread: readonly UnreadField[]
}

interface UnreadField {
  /** `score`, `messages[].audio`. */
  readonly field: string
  readonly rows: number
  /** Where it stands first: `file:line`. */
  readonly first: string
}

interface ConvertOptions {
  readonly purpose: RowPurpose | null
  readonly write: (line: string) => void
  readonly map?: ColumnMap | undefined
  readonly keepsLabels?: boolean | undefined
}

/** Names of fields that are remembered: rows may have any. */
const MAX_FIELDS = 100
const SHOWN_FIELDS = 20

/**
 * Converts all rows of a file.
 *
 * @param options.purpose null: by the form of the first row
 * @param options.write takes each line with its line feed
 * @param options.map what columns are called for
 * @param options.keepsLabels whether rows of KTO stay what they are
 * @throws {UsageError} `input_invalid` with `file:line: what is wrong`, each kind once; `invalid_option` where the first row does
 *   not say what it is for
 */
export async function convertFile(
  data: Blob,
  name: string,
  { purpose, write, map, keepsLabels = false }: ConvertOptions,
): Promise<ConvertedFile> {
  const forms = new Map<string, number>()
  const unread = createUnread()
  const problems = createProblems()
  let [read, written, changed] = [0, 0, 0]
  let converter: RowConverter | null = null
  let recognised: ColumnMap | null = null
  const onRecognised = (found: ColumnMap): void => {
    recognised = found
  }
  for await (const { where, row, kind } of readMappedRows(data, name, { map, onRecognised })) {
    read += 1
    let problem = typeof row === 'string' ? row : null
    if (typeof row !== 'string') {
      converter ??= createRowConverter(purpose ?? purposeOf(row) ?? refuseTarget(where, row), { keepsLabels })
      const made = converter.convert(row)
      if ('problem' in made) problem = made.problem
      else {
        forms.set(made.form, (forms.get(made.form) ?? 0) + 1)
        for (const each of made.rows) {
          write(`${stringifyExact(each)}\n`)
          // what is asked keeps all of its fields for rewards
          if (converter.purpose !== 'prompt') unread.add(unreadOfRow(each), where)
        }
        written += made.rows.length
        if (kind !== 'line' || made.rows[0] !== row) changed += 1
      }
    }
    if (problem !== null) problems.add(where, problem)
  }
  const hint = 'trainyard help files shows the forms that are read'
  problems.throwIfAny(hint)
  if (converter === null) throw new UsageError('input_invalid', `${name} holds no row`, { hint })
  const sorted = [...forms].sort(([, a], [, b]) => b - a).map(([form, rows]) => ({ form, rows }))
  return {
    purpose: converter.purpose,
    read,
    written,
    changed,
    leftOut: converter.leftOut(),
    forms: sorted,
    recognised,
    unread: unread.fields(),
  }
}

/**
 * Rows of a job as they are to be sent: those of other trainers converted, where nothing has to be chosen for it.
 *
 * @param check throws for rows that cannot be trained on; that is what is said, too, where they cannot be converted
 * @returns the rows, what the check found, and what was converted, null for nothing
 */
export async function readTrainingRows<T>(
  data: Blob,
  name: string,
  { kind, check, map, keepsLabels }: RowReader<T>,
): Promise<{ readonly data: Blob; readonly facts: T; readonly converted: ConvertedFile | null }> {
  const lines: string[] = []
  const convert = () => convertFile(data, name, { purpose: kind, write: (line) => lines.push(line), map, keepsLabels })
  const checked = async (converted: ConvertedFile) => {
    const made = new Blob(lines)
    return { data: made, facts: await check(made, `${name} (converted)`), converted }
  }
  // of KTO's rows somebody has to say what becomes of the bad ones
  const isPlain = ({ forms }: ConvertedFile): boolean =>
    keepsLabels === true || forms.every(({ form }) => form !== LABELLED_NAME)
  if (map !== undefined || (await isTable(data, name))) {
    const converted = await convert()
    if (isPlain(converted)) return checked(converted)
    throw new UsageError('input_invalid', `${name} holds ${LABELLED_NAME} in each row`, {
      hint: command`train them as they are: trainyard train dpo <model> --loss-type kto --file ${name}; or pair good and bad answers: trainyard data convert ${name} --to dpo --out pairs.jsonl`,
    })
  }
  try {
    return { data, facts: await check(data, name), converted: null }
  } catch (refusal) {
    if (!(refusal instanceof AppError) || refusal.category !== 'invalid_request') throw refusal
    const converted = await convert().catch(() => null)
    if (converted === null || converted.changed === 0 || !isPlain(converted)) throw refusal
    return checked(converted)
  }
}

/** A kind of rows that a job trains on. */
export interface RowReader<T> {
  readonly kind: RowKind
  /** Throws for rows that cannot be trained on. */
  readonly check: (data: Blob, name: string) => Promise<T>
  readonly map?: ColumnMap | undefined
  /** Whether rows of KTO are wanted as they are. */
  readonly keepsLabels?: boolean
}

/** `fields that nothing reads: id (3 rows, first rows.jsonl:1)`; null where all are read. */
export function describeUnread({ unread }: ConvertedFile): string | null {
  if (unread.length === 0) return null
  const shown = unread.slice(0, SHOWN_FIELDS).map(({ field, rows, first }) => {
    return `${field} (${rows === 1 ? first : `${plural(rows, 'row')}, first ${first}`})`
  })
  const more = unread.length > SHOWN_FIELDS ? ` and ${unread.length - SHOWN_FIELDS} more` : ''
  return `fields that nothing reads: ${shown.join(', ')}${more}`
}

function createUnread() {
  const found = new Map<string, { rows: number; readonly first: string }>()
  return {
    add(fields: readonly string[], where: string): void {
      for (const field of fields) {
        const known = found.get(field)
        if (known !== undefined) known.rows += 1
        else if (found.size < MAX_FIELDS) found.set(field, { rows: 1, first: where })
      }
    },
    fields: (): readonly UnreadField[] => [...found].map(([field, facts]) => ({ field, ...facts })),
  }
}

/** `3 rows, each a ShareGPT row (conversations of from and value)`, for every form, and what its columns were read as. */
export function describeForms({ forms, recognised }: ConvertedFile): string {
  const said = forms.map(({ form, rows }) => `${plural(rows, 'row')}, each ${form}`).join('; ')
  return recognised === null ? said : `${said}, with ${describeMap(recognised)} (--map says otherwise)`
}

function refuseTarget(where: string, row: JsonObject): never {
  const columns = Object.keys(row).slice(0, 8).join(', ')
  throw new UsageError('invalid_option', `${where}: its form does not say what the rows are for (it has ${columns})`, {
    param: '--to',
    hint: `give --to ${CONVERT_TARGETS.join(', --to ')}, or say what columns are: --map text=prompt,label=completion`,
  })
}
