/**
 * The flags of `trainyard train` that set an option of the job, from the rows of `contract/jobs/`, in their order. Knows no option.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { JOB_DEFINITIONS, type OptionsOf, type OptionsTable } from '#contract/jobs/kinds.js'
import type { ByChoice, BySize, OptionFlag, OptionRow, OptionTable } from '#contract/jobs/option.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { type Flag, flag } from '../command/flags.js'
import { ExpectedError } from '../config/parse-value.js'
import { parseChoice, parseFields, parseInteger, parseNames, parseNumber } from '../input/parse.js'
import { isFormulaFile } from './formula-file.js'

/** Options with a flag. */
type Flagged<K extends JobKind> = {
  [Name in keyof OptionsTable<K>]: OptionsTable<K>[Name] extends { readonly flag: OptionFlag } ? Name : never
}[keyof OptionsTable<K>]

/** By the options' names in the API; an absent flag is undefined. */
export type OptionFlags<K extends JobKind> = {
  readonly [Name in Flagged<K>]: Flag<NonNullable<OptionsOf<K>[Name]> | undefined>
}

/** Those of options inside an object stand under both names, as `lora.rank`. */
export function optionFlags<K extends JobKind>(kind: K): OptionFlags<K> {
  const flags = flagged(JOB_DEFINITIONS[kind].options).map(([names, row]) => [
    names.join('.'),
    flagOf(names.join('_'), row, row.flag ?? {}),
  ])
  return Object.fromEntries(flags) as OptionFlags<K>
}

/** Rows with a flag and the names that lead to them. */
function flagged(table: OptionTable, above: readonly string[] = []): (readonly [readonly string[], OptionRow])[] {
  return Object.entries(table).flatMap(([name, row]) => [
    ...(row.flag === undefined ? [] : [[[...above, name], row] as const]),
    ...(row.type === 'object' ? flagged(row.rows, [...above, name]) : []),
  ])
}

/**
 * What the flags say, under the API's names.
 *
 * @param open what other flags say; of an object the options that no flag of their own names stay
 */
export function givenOptions(
  kind: JobKind,
  flags: Readonly<Record<string, unknown>>,
  open: JsonObject = {},
): Record<string, JsonValue> {
  const given: Record<string, JsonValue> = {}
  for (const [[name = '', inner]] of flagged(JOB_DEFINITIONS[kind].options)) {
    const value = flags[inner === undefined ? name : `${name}.${inner}`] as JsonValue | undefined
    if (value === undefined) continue
    const known = given[name] ?? open[name] ?? {}
    given[name] = inner === undefined ? value : { ...(isJsonObject(known) ? known : {}), [inner]: value }
  }
  return given
}

function flagOf(name: string, row: OptionRow, { spelling, isCommon, file }: OptionFlag): Flag<JsonValue | undefined> {
  const long = `--${name.replaceAll('_', '-')}`
  const summary = summaryOf(row)
  const options = { isAdvanced: isCommon !== true }
  switch (row.type) {
    case 'boolean': {
      if (row.default !== false || row.advised === true) return flag.toggle(spelling ?? long, summary, options)
      const on = flag.switch(spelling ?? long, summary, options)
      return { ...on, read: (texts) => on.read(texts) || undefined }
    }
    case 'number': {
      const { min, max } = row.bounds
      return flag.custom((text) => parseNumber(text, min, max))(spelling ?? `${long} <x>`, summary, options)
    }
    case 'integer': {
      const { word, bounds } = row
      const { min = Number.MIN_SAFE_INTEGER, max } = bounds
      const parse = (text: string) => (text === word?.text ? text : parseInteger(text, min, max))
      return flag.custom(parse)(spelling ?? `${long} <n>`, summary, options)
    }
    case 'choice': {
      const { choices, others = {} } = row
      const among = spelling ?? `${long} <${choices.join('|')}>`
      const parse = (text: string): string => {
        if (Object.hasOwn(others, text)) throw new ExpectedError(`${others[text]}, as it is called here`)
        return file !== undefined && isFormulaFile(text) ? text : parseChoice(text, choices)
      }
      return flag.custom(parse)(among, summary, options)
    }
    case 'names':
      return flag.custom((text) => parseNames(text, row.choices))(spelling ?? `${long} <names>`, summary, options)
    case 'fields':
      return flag.custom(parseFields)(spelling ?? `${long} <json>`, summary, options)
    default:
      return flag.text(spelling ?? `${long} <text>`, summary, options)
  }
}

/** The sentence of the row and what counts where nothing is given, for example `weight of the KL penalty; default 0`. */
function summaryOf(row: OptionRow): string {
  const { summary, default: stated, bySize = [], byChoice, flag: { whenAbsent } = {} } = row
  const otherwise = row.type === 'boolean' ? (row.advised ?? stated) : stated
  if (whenAbsent === null) return summary
  const published = otherwise === null || otherwise === false ? [] : [shown(otherwise)]
  const sizes = bySize.length === 0 ? [] : [shownSizes(bySize)]
  const choices = byChoice === undefined ? [] : [shownChoices(byChoice)]
  const parts = [...published, ...sizes, ...choices, ...(whenAbsent === undefined ? [] : [whenAbsent])]
  return parts.length === 0 ? summary : `${summary}; default ${parts.join(', ')}`
}

/** @example '3e-4 for models below 300 million parameters, 1e-3 below 20' */
function shownSizes(bySize: readonly BySize[]): string {
  const [largest, ...smaller] = bySize
    .toReversed()
    .map(({ below, value }) => ({ value: shown(value), at: below / 1e6 }))
  const first = `${largest?.value} for models below ${largest?.at} million parameters`
  return [first, ...smaller.map(({ value, at }) => `${value} below ${at}`)].join(', ')
}

/** @example '0.1, 2 with simpo' */
function shownChoices({ values }: ByChoice): string {
  const choicesOf = new Map<number, string[]>()
  for (const [choice, value] of Object.entries(values)) choicesOf.set(value, [...(choicesOf.get(value) ?? []), choice])
  const [[usual] = [Number.NaN], ...others] = choicesOf
  const named = others.map(([value, choices]) => `${shown(value)} with ${choices.join(', ')}`)
  return [shown(usual), ...named].join(', ')
}

function shown(value: JsonValue): string {
  if (value === true) return 'on'
  return typeof value === 'number' && value > 0 && value < 0.01 ? value.toExponential() : String(value)
}
