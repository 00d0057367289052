/**
 * Options of a training job that would do nothing: reported, or refused when the client asks for `strict`.
 *
 * Names that no schema knows are accepted, because older and newer clients differ, but never in silence: they stand as
 * `warnings` on the job's record. Known names whose meaning is not available here are refused by name.
 */

import { AppError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { RequestValidationError } from '#contract/wire/errors.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { JOB_DEFINITIONS } from './kinds.js'
import type { OptionTable } from './option.js'
import { smallRateWarning } from './size-defaults.js'
import { findUnusedOptions, optionPlaces } from './unused-options.js'

/**
 * What a job's record says about its options, one sentence each.
 *
 * @param step step of the checkpoint the job made; null before
 */
export function optionWarnings(kind: JobKind, config: JsonObject, step: number | null): string[] {
  const warnings = findUnusedOptions(kind, config).map(({ message }) => message)
  const logging = config['metric_logging']
  const target = isJsonObject(logging) ? logging['target_training_step'] : undefined
  if (step !== null && target !== undefined && target !== null && Number(target) !== step) {
    warnings.push(
      `config.metric_logging.target_training_step is ${Number(target)}, but the job made step ${step}: its metrics stand there`,
    )
  }
  return warnings
}

/**
 * What a job's record says about a learning rate that suits larger models.
 *
 * @param resolved every option the job runs with
 */
export function rateWarnings(kind: JobKind, resolved: JsonObject, parameters: number | null): string[] {
  const { learning_rate: rates } = resolved
  const numbers = (Array.isArray(rates) ? rates : [rates]).filter((rate) => typeof rate === 'number')
  if (numbers.length === 0) return []
  const option = `${JOB_DEFINITIONS[kind].root}.learning_rate`
  const rate = numbers.reduce((most, each) => Math.max(most, each), 0)
  const warning = smallRateWarning(kind, { rate, option, parameters })
  return warning === null ? [] : [warning]
}

/**
 * Refuses what `findUnusedOptions` finds.
 *
 * @throws {RequestValidationError} `unknown_option` naming every such option
 */
export function assertNoUnusedOptions(kind: JobKind, config: JsonObject): void {
  const notes = findUnusedOptions(kind, config)
  if (notes.length === 0) return
  throw new RequestValidationError(
    notes.map(({ path, message }) => ({ loc: ['body', ...path], msg: message, type: 'extra_forbidden' })),
    { code: 'unknown_option', message: notes.map(({ message }) => message).join('; ') },
  )
}

/**
 * Refuses options that are known but cannot be honoured, all at once.
 *
 * @throws {AppError} of category `not_implemented`, `unsupported_option`
 */
export function assertSupportedOptions(kind: JobKind, config: JsonObject): void {
  const refusals = optionPlaces(kind, config).flatMap(({ root, options, table }) => refusalsIn(options, root, table))
  const first = refusals[0]
  if (first === undefined) return
  throw new AppError('not_implemented', 'unsupported_option', refusals.map(({ message }) => message).join('; '), {
    param: first.param,
    hint: 'leave it out',
  })
}

interface Refusal {
  readonly param: string
  readonly message: string
}

function refusalsIn(options: JsonObject, path: string, table: OptionTable): Refusal[] {
  return Object.entries(table).flatMap(([name, row]): Refusal[] => {
    const value = options[name]
    if (value === undefined) return []
    const param = `${path}.${name}`
    const { unsupported } = row
    if (unsupported !== undefined && !unsupported.isHarmless(value)) {
      return [{ param, message: `${param} ${unsupported.reason}` }]
    }
    return row.type === 'object' && isJsonObject(value) ? refusalsIn(value, param, row.rows) : []
  })
}
