/**
 * How a row of a table of training options is written, and which value it has. The tables are `rl.ts`, `sft.ts`, `dpo.ts` and,
 * for what they share, `shared-options.ts`. Plain data, so that a command shows a default without loading a schema; knows no
 * option, and neither requests nor flags.
 */
import type { JsonObject, JsonValue } from '#base/util/json.js'

/** Largest number of the trainer's arithmetic: what is more would be infinity to it. */
export const MAX_FLOAT32 = 3.4028234663852886e38

/** Inclusive. */
export interface Bounds {
  readonly min?: number
  readonly max?: number
}

/** A value for base models of fewer parameters; larger ones go on to the next. */
export interface BySize {
  readonly below: number
  readonly value: number
}

/** Values that follow from a choice of another option, where nobody says otherwise. */
export interface ByChoice {
  /** That option. */
  readonly of: string
  /** By its value; without one there is none. */
  readonly values: Readonly<Record<string, number>>
}

/** A flag of `trainyard train`. */
export interface OptionFlag {
  /** As commander spells it, where it is not `--the-name <x>`. */
  readonly spelling?: string
  /** The sentence of help, where it is not that of the row. */
  readonly summary?: string
  /** Further words about what counts where nothing is given; null: no default is shown. */
  readonly whenAbsent?: string | null
  /** The option that a module takes the place of the choice by, where its path is given: what its function computes, as data. */
  readonly file?: 'loss_formula' | 'advantage_formula'
  /** Shown before the advanced flags. */
  readonly isCommon?: boolean
}

/** What is known of a name that is not available. */
export interface Unsupported {
  /** Behind the name, for example `is not supported: no plots are made here`. */
  readonly reason: string
  /** A value that asks for nothing. */
  readonly isHarmless: (value: JsonValue) => boolean
}

interface RowOfAnyType {
  /** What it says, in a sentence without its default. */
  readonly summary: string
  /** Null: there is none, or it follows from other options. */
  readonly default: JsonValue
  /** What was measured for small base models, smallest first: taken where nobody says otherwise, but by callers of the API itself. */
  readonly bySize?: readonly BySize[]
  /** What the option is where it is not given, by the value of another one. Its default is null then. */
  readonly byChoice?: ByChoice
  /** Names of options beside which values by size are not meant. */
  readonly bySizeUnless?: readonly string[]
  readonly flag?: OptionFlag
  /** Without effect unless one of these options is set. */
  readonly needs?: { readonly any: readonly string[]; readonly said: string }
  /** Measures on validation rows. */
  readonly isMeasuring?: boolean
  /** May stand in the job's second place for options as well. */
  readonly isExtension?: boolean
  /** False for a name that says the same as another one, or that only refuses: a job's record leaves it out. */
  readonly isRecorded?: boolean
  readonly unsupported?: Unsupported
}

interface NumberRow extends RowOfAnyType {
  readonly type: 'number'
  readonly default: number | null
  readonly bounds: Bounds
  /** One number for each batch may be given instead. */
  readonly takesList?: boolean
}

interface IntegerRow extends RowOfAnyType {
  readonly type: 'integer'
  readonly default: number | string | null
  readonly bounds: Bounds
  /** What may be given instead, and the number that it stands for. */
  readonly word?: { readonly text: string; readonly value: number }
}

interface SwitchRow extends RowOfAnyType {
  readonly type: 'boolean'
  readonly default: boolean | null
  /** What the command line and the fine-tuning API take where nobody says otherwise: the default is that of the published API. */
  readonly advised?: boolean
  /** What other trainers give in its place, and what that is here. */
  readonly others?: Readonly<Record<string, string>>
}

interface ChoiceRow extends RowOfAnyType {
  readonly type: 'choice'
  readonly default: string
  readonly choices: readonly string[]
  /** What other trainers call them, and what that is here. */
  readonly others?: Readonly<Record<string, string>>
}

/** Some of the choices, as a list or as one text with commas. */
interface NamesRow extends RowOfAnyType {
  readonly type: 'names'
  readonly default: null
  readonly choices: readonly string[]
}

interface TextRow extends RowOfAnyType {
  readonly type: 'text'
  readonly default: null
  readonly maxLength: number
}

interface ObjectRow extends RowOfAnyType {
  readonly type: 'object'
  readonly default: null
  readonly rows: Readonly<Record<string, OptionRow>>
}

/** An object whose fields are the caller's own: nothing here knows their names or types. */
interface FieldsRow extends RowOfAnyType {
  readonly type: 'fields'
  readonly default: null
  /** Names that are refused. */
  readonly reserved: readonly string[]
}

/** A name that nothing reads: known, so that it can be refused by name. */
interface UnreadRow extends RowOfAnyType {
  readonly type: 'unread'
  readonly default: null
  readonly unsupported: Unsupported
}

/** One option. */
export type OptionRow =
  | NumberRow
  | IntegerRow
  | SwitchRow
  | ChoiceRow
  | NamesRow
  | TextRow
  | ObjectRow
  | FieldsRow
  | UnreadRow

/** Options of a kind of job by their names in the API. */
export type OptionTable = Readonly<Record<string, OptionRow>>

/** What a job runs with by a row: its type's value, or null where that is the default. */
export type OptionValue<R extends OptionRow> =
  | (R extends { readonly rows: infer Rows extends OptionTable }
      ? ObjectValue<Rows>
      : R extends { readonly type: 'names' }
        ? readonly string[]
        : R extends { readonly choices: readonly (infer Choice)[] }
          ? Choice
          : R extends { readonly takesList: true }
            ? number | readonly number[]
            : R['type'] extends 'integer' | 'number'
              ? number
              : R['type'] extends 'boolean'
                ? boolean
                : R['type'] extends 'fields'
                  ? JsonObject
                  : string)
  | (null extends R['default'] ? null : never)

type ObjectValue<Rows extends OptionTable> = {
  readonly [Name in keyof Rows as Rows[Name]['type'] extends 'unread' ? never : Name]: OptionValue<Rows[Name]>
}

/** Every option of a table. */
export type OptionValues<T extends OptionTable> = { readonly [Name in keyof T]: OptionValue<T[Name]> }

/** Freezes a table, whose names and defaults become types. */
export function defineOptions<const T extends OptionTable>(rows: T): T {
  for (const row of Object.values(rows)) Object.freeze(row)
  return Object.freeze(rows)
}

/** The row of a name that a client sends; undefined for one that the table lacks. */
export function rowOf(table: OptionTable, name: string): OptionRow | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

/** What a row stands for where nothing is said, as a job runs with it. */
export function defaultOf(row: OptionRow): JsonValue {
  return row.type === 'integer' && row.word !== undefined && row.default === row.word.text
    ? row.word.value
    : row.default
}

/** Fills in the options that follow from a choice of another one and were not given. */
export function fillByChoice<Values extends object>(table: OptionTable, values: Values): Values {
  const known = new Map<string, unknown>(Object.entries(values))
  const filled = Object.entries(table).flatMap(([name, { byChoice }]) => {
    if (byChoice === undefined || (known.get(name) ?? null) !== null) return []
    return [[name, byChoice.values[String(known.get(byChoice.of))] ?? null]]
  })
  return { ...values, ...Object.fromEntries(filled) }
}

/** Whether a request says something with a value: null, nothing, and the default, which many clients always send, say nothing. */
export function isSet(row: OptionRow | undefined, value: JsonValue | undefined): value is JsonValue {
  if (value === undefined || value === null) return false
  const { default: otherwise = null } = row ?? {}
  return typeof otherwise === 'number' ? Number(value) !== otherwise : value !== otherwise
}

/** Names of the rows that something holds for, in the order of the table. */
export function namesOf(table: OptionTable, holds: (row: OptionRow) => boolean = () => true): string[] {
  return Object.entries(table).flatMap(([name, row]) => (holds(row) ? [name] : []))
}

/** The options of these names. */
export function pickOptions(options: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name)))
}
