/**
 * A request's options as the job will run with them: every one with its default, and what follows from others. Done once, when
 * the job is asked for; its record, its plan, its worker and whoever reads the record have the same.
 *
 * Null counts as absent for every field, because clients send null for what the user left unset. Known only when the job runs,
 * and null here: an adapter's shape that nobody chose is the model's, a seed is the job's id, rows are as long as the data asks for.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue, withoutNulls } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { JOB_DEFINITIONS } from './kinds.js'
import { namesOf, type OptionRow, pickOptions } from './option.js'
import { parseOptions } from './parse-options.js'

/**
 * @param config of the request, nulls allowed; a second place for options stands inside
 * @returns every option of the kind; `readOptions` has their types
 * @throws {RequestValidationError} `invalid_value` naming every wrong option
 * @example resolveOptions('rl', { ppo: true })['epsilon'] // 0.2
 */
export function resolveOptions(kind: JobKind, config: JsonObject): JsonObject {
  const definition = JOB_DEFINITIONS[kind]
  const { options: table, root } = definition
  const parsed = parseOptions(table, flatOptions(kind, config), root)
  const options = Object.entries(table).map(([name, row]) => [name, numberOf(row, parsed[name] ?? null)])
  return definition.derive(Object.fromEntries(options))
}

/** What of them the job's record tells: every option by one name. */
export function recordOptions(kind: JobKind, options: JsonObject): JsonObject {
  const { options: table } = JOB_DEFINITIONS[kind]
  return pickOptions(
    options,
    namesOf(table, (row) => row.isRecorded !== false),
  )
}

/** Options from both of their places without nulls; the first place comes first. */
export function flatOptions(kind: JobKind, config: JsonObject): JsonObject {
  const { options: table, secondRoot } = JOB_DEFINITIONS[kind]
  const given = withoutNulls(config)
  if (secondRoot === undefined) return given
  const { [secondRoot]: nested, ...flat } = given
  if (nested === undefined || !isJsonObject(nested)) return flat
  return {
    ...pickOptions(
      nested,
      namesOf(table, (row) => row.isExtension === true),
    ),
    ...flat,
  }
}

/**
 * Refuses options that measure on validation rows where a job has none, and rows from two places.
 *
 * @throws {InvalidRequestError} `invalid_value` with `param`
 */
export function assertValidationOptions(kind: JobKind, config: JsonObject, hasValidation: boolean): void {
  const { options: table, root } = JOB_DEFINITIONS[kind]
  const given = flatOptions(kind, config)
  const isSplit = Number(given['validation_split'] ?? 0) > 0
  if (isSplit && hasValidation) {
    throw new InvalidRequestError(
      'invalid_value',
      `${root}.validation_split holds rows out, but the job has validation rows.`,
      {
        param: `${root}.validation_split`,
        hint: 'give validation_data_url or validation_split, not both',
      },
    )
  }
  if (isSplit || hasValidation) return
  const name = namesOf(table, (row) => row.isMeasuring === true).find((each) => (given[each] ?? false) !== false)
  if (name === undefined) return
  throw new InvalidRequestError('invalid_value', `${root}.${name} needs validation rows, but the job has none.`, {
    param: `${root}.${name}`,
    hint: 'give validation_data_url or validation_split, or leave the option out',
  })
}

function numberOf(row: OptionRow, value: JsonValue): JsonValue {
  return row.type === 'integer' && row.word?.text === value ? row.word.value : value
}
