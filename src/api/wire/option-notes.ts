/**
 * Options of a training job that would do nothing: reported, or refused when the client asks for `strict`.
 *
 * Names that no schema knows are accepted, because older and newer clients differ, but never in silence: they stand as
 * `warnings` on the job's record. Known names whose meaning is not available here are refused by name.
 */
import { RL_DEFAULTS, SFT_EXTENSIONS } from '#api/settings/training.js'
import { AppError } from '#base/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { RequestValidationError } from './errors.js'
import type { JobKind } from './job-words.js'
import { dpoOptionsSchema, rlOptionsSchema, sftOptionsSchema } from './training-options.js'

const RL_NAMES = Object.keys(rlOptionsSchema.shape)
const SFT_NAMES = Object.keys(sftOptionsSchema.shape)
const DPO_NAMES = Object.keys(dpoOptionsSchema.shape)
const NESTED_NAMES: Readonly<Record<string, readonly string[]>> = {
  lora: ['rank', 'alpha', 'dropout', 'target_modules'],
  metric_logging: ['enabled', 'target_training_step'],
}
const LORA_TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']

/** Where a kind of job takes options from, and which names it knows there. */
interface Place {
  readonly root: string
  readonly options: JsonObject
  readonly known: readonly string[]
}

const PLACES: Readonly<Record<JobKind, (config: JsonObject) => Place[]>> = {
  rl: (config) => [{ root: 'experimental_config', options: config, known: RL_NAMES }],
  sft: ({ experimental_config: nested, ...flat }) => [
    { root: 'config', options: flat, known: SFT_NAMES },
    ...(isObject(nested) ? [{ root: 'experimental_config', options: nested, known: SFT_EXTENSIONS }] : []),
  ],
  dpo: (config) => [{ root: 'config', options: config, known: DPO_NAMES }],
}

/** An option without effect: where it stands and a sentence about it. */
export interface OptionNote {
  /** For example `['experimental_config', 'learing_rate']`. */
  readonly path: readonly string[]
  readonly message: string
}

/**
 * The options of a stored configuration that have no effect.
 *
 * @param config as stored with the job: `experimental_config` of an RL job; `config` of an SFT job, with its
 *   `experimental_config` inside
 */
export function findUnusedOptions(kind: JobKind, config: JsonObject): readonly OptionNote[] {
  const unknown = PLACES[kind](config).flatMap(({ root, options, known }) => notesOn(options, [root], known))
  return [
    ...(kind === 'sft' ? unknown.map(placed) : unknown),
    ...findOverridden(kind, config),
    ...findUnneeded(kind, config),
  ]
}

/** An option that stands in the wrong one of two places is not unknown. */
function placed(note: OptionNote): OptionNote {
  const [root, name, ...inside] = note.path
  const isMisplaced = root === 'experimental_config' && inside.length === 0 && SFT_NAMES.includes(name ?? '')
  return isMisplaced ? { ...note, message: `${root}.${name} has no effect there: it is an option of config` } : note
}

/** Options that stand in both places of an SFT job with different values: those of `config` are taken. */
function findOverridden(kind: JobKind, { experimental_config: nested, ...flat }: JsonObject): OptionNote[] {
  if (kind !== 'sft' || !isObject(nested)) return []
  return SFT_EXTENSIONS.flatMap((name) => {
    const [taken, passedOver] = [flat[name] ?? null, nested[name] ?? null]
    if (taken === null || passedOver === null || JSON.stringify(taken) === JSON.stringify(passedOver)) return []
    return [
      {
        path: ['experimental_config', name],
        message: `experimental_config.${name} has no effect beside config.${name}, which says otherwise`,
      },
    ]
  })
}

/** Known options that another one, left out, keeps from having an effect. */
function findUnneeded(kind: JobKind, config: JsonObject): OptionNote[] {
  const given = Object.assign({}, ...PLACES[kind](config).map(({ options }) => options)) as JsonObject
  const isNothing = (name: string): boolean =>
    given[name] === undefined || given[name] === null || Number(given[name]) === 0
  const note = (root: string, name: string, needs: string): OptionNote => ({
    path: [root, name],
    message: `${root}.${name} has no effect without ${needs}`,
  })
  if (kind === 'rl') {
    if (!isNothing('kl_penalty_coef')) return []
    // clients send the default with every request; it says nothing
    const isSourceMeant = given['kl_penalty_source'] !== RL_DEFAULTS.kl_penalty_source
    return [...KL_REFERENCES, ...(isSourceMeant ? ['kl_penalty_source'] : [])]
      .filter((name) => given[name] !== undefined && given[name] !== null)
      .map((name) => note('experimental_config', name, 'kl_penalty_coef'))
  }
  const notes: OptionNote[] = []
  const isConstant = (given['learning_rate_schedule'] ?? 'constant') === 'constant' && isNothing('warmup_steps')
  if (!isNothing('min_learning_rate') && isConstant) {
    notes.push(note('config', 'min_learning_rate', 'learning_rate_schedule linear or cosine, or warmup_steps'))
  }
  if (!isNothing('early_stopping_min_delta') && isNothing('early_stopping_patience')) {
    notes.push(note('config', 'early_stopping_min_delta', 'early_stopping_patience'))
  }
  return notes
}

const KL_REFERENCES = ['kl_penalty_reference_step', 'kl_penalty_step_lag', 'kl_ref_adapter_path']

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
  const refusals = PLACES[kind](config).flatMap(({ root, options }) => refusalsIn(options, root))
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

function notesOn(options: JsonObject, path: readonly string[], known: readonly string[]): OptionNote[] {
  return Object.entries(options).flatMap(([name, value]): OptionNote[] => {
    const at = [...path, name]
    if (!known.includes(name)) return [{ path: at, message: describeUnknown(at, known) }]
    const nested = NESTED_NAMES[name]
    return nested !== undefined && isObject(value) ? notesOn(value, at, nested) : []
  })
}

function describeUnknown(path: readonly string[], known: readonly string[]): string {
  const name = (path.at(-1) ?? '').slice(0, 100)
  const near = closest(name, known)
  const where = [...path.slice(0, -1), name].join('.')
  return `${where} is not a known option and has no effect${near === undefined ? '' : `; did you mean "${near}"?`}`
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
