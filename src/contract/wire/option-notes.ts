/**
 * Options of a training job that would do nothing: reported, or refused when the client asks for `strict`.
 *
 * Names that no schema knows are accepted, because older and newer clients differ, but never in silence: they stand as
 * `warnings` on the job's record. Known names whose meaning is not available here are refused by name.
 */

import { AppError } from '#base/errors/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { smallRateWarning } from '#contract/jobs/size-defaults.js'
import { RequestValidationError } from './errors.js'
import type { JobKind } from './job-words.js'
import { findUnusedOptions, OPTION_PLACES } from './training/unused-options.js'

const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']

/**
 * What a job's record says about its options, one sentence each.
 *
 * @param step step of the checkpoint the job made; null before
 */
export function optionWarnings(kind: JobKind, config: JsonObject, step: number | null): string[] {
  const warnings = findUnusedOptions(kind, config).map(({ message }) => message)
  const logging = config['metric_logging']
  const target = isObject(logging) ? logging['target_training_step'] : undefined
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
  const option = `${OPTION_PLACES[kind]({})[0]?.root}.learning_rate`
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
  const refusals = OPTION_PLACES[kind](config).flatMap(({ root, options }) => refusalsIn(options, root))
  const first = refusals[0]
  if (first === undefined) return
  throw new AppError('not_implemented', 'unsupported_option', refusals.map(({ message }) => message).join('; '), {
    param: first.param,
    hint: 'leave it out',
  })
}

function refusalsIn(options: JsonObject, root: string): { readonly param: string; readonly message: string }[] {
  const found: { param: string; message: string }[] = []
  const refuse = (name: string, reason: string): void => {
    found.push({ param: `${root}.${name}`, message: `${root}.${name} ${reason}` })
  }
  if (isTruthy(options['scale_learning_rate_by_reward_std_dev'])) {
    refuse(
      'scale_learning_rate_by_reward_std_dev',
      'is not supported: learning rates do not follow the history of rewards',
    )
  }
  if (isTruthy(options['plot_tensors'])) refuse('plot_tensors', 'is not supported: no plots are made here')
  const lora = options['lora']
  if (!isObject(lora)) return found
  if (lora['dropout'] !== undefined && Number(lora['dropout']) !== 0) {
    refuse('lora.dropout', 'is not supported: adapters train without dropout')
  }
  const targets = lora['target_modules']
  if (targets !== undefined && targets !== 'all-linear' && !isAllTargets(targets)) {
    refuse('lora.target_modules', `is not supported: adapters always cover ${LORA_TARGETS.join(', ')}`)
  }
  return found
}

function isAllTargets(value: JsonValue): boolean {
  return (
    Array.isArray(value) && value.length === LORA_TARGETS.length && LORA_TARGETS.every((name) => value.includes(name))
  )
}

/** As `laxBoolean` reads it; what it would refuse has been refused before. */
function isTruthy(value: JsonValue | undefined): boolean {
  return value === true || value === 1 || (typeof value === 'string' && /^(1|on|t|true|y|yes)$/i.test(value))
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
