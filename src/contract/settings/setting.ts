/**
 * How a row of a table of settings is written, and which value it has. The tables are `service.ts` beside it and, for the
 * command line's own, `cli/config/client-settings.ts`. Knows no setting, and neither flags nor files: plain data.
 */

/** Inclusive. */
export interface Bounds {
  readonly min: number
  readonly max: number
}

interface RowOfAnyType {
  /** In the config file. The flag `--key` and the variable `TRAINYARD_KEY` follow from it. */
  readonly key: string
  /** One sentence of help, without its default. */
  readonly summary: string
  /** What counts where the default is null, in words: shown as the default. */
  readonly whenAbsent?: string
  /** A flag that is not `--key <value>`, as commander spells it; null: there is none. */
  readonly flag?: string | null
  /** Environment variables that are not `TRAINYARD_KEY`; the first one set wins. */
  readonly env?: readonly string[]
  /** Of a plugin: the setting that it stands behind. Default: it stands behind all. */
  readonly after?: string
  /** Shown before the advanced flags. */
  readonly isCommon?: boolean
  /** Never printed in full. */
  readonly isSecret?: boolean
}

interface WholeNumberRow extends RowOfAnyType {
  readonly type: 'integer'
  readonly default: number | null
  readonly bounds: Bounds
  /** For help; durations are milliseconds, sizes bytes. */
  readonly unit?: string
  /** A default that is no number one has to know. */
  readonly hidesDefault?: boolean
}

interface SizeRow extends RowOfAnyType {
  readonly type: 'size'
  readonly default: number | null
  readonly bounds: Bounds
}

interface DurationRow extends RowOfAnyType {
  readonly type: 'duration'
  readonly default: number | null
  /** Default: what a timer can wait. */
  readonly bounds?: Bounds
  readonly hidesDefault?: boolean
}

interface ChoiceRow extends RowOfAnyType {
  readonly type: 'choice'
  readonly default: string
  readonly choices: readonly string[]
}

interface SwitchRow extends RowOfAnyType {
  readonly type: 'boolean'
  readonly default: boolean | null
}

interface TextRow extends RowOfAnyType {
  readonly type: 'text' | 'path' | 'url' | 'address'
  readonly default: string | null
}

interface ListRow extends RowOfAnyType {
  readonly type: 'list'
  readonly default: readonly string[]
}

/** One setting. */
export type SettingRow = WholeNumberRow | SizeRow | DurationRow | ChoiceRow | SwitchRow | TextRow | ListRow

/** What is set by a row: its type's value, or null where that is the default. */
export type SettingValue<R extends SettingRow> =
  | (R extends { readonly choices: readonly (infer Choice)[] }
      ? Choice
      : R['type'] extends 'integer' | 'size' | 'duration'
        ? number
        : R['type'] extends 'boolean'
          ? boolean
          : R['type'] extends 'list'
            ? readonly string[]
            : string)
  | (null extends R['default'] ? null : never)

/** Longest time a timer can wait. */
export const MAX_DURATION_MS = 24 * 24 * 3_600_000

/** Freezes a table, whose keys and defaults become types. */
export function defineSettings<const T extends Readonly<Record<string, SettingRow>>>(rows: T): T {
  for (const row of Object.values(rows)) Object.freeze(row)
  return Object.freeze(rows)
}
