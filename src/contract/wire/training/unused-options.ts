/**
 * Options of a training job that have no effect: found by name and by what they need, without the schemas, so that a command can
 * look before anything is sent. What is said or refused because of them: `contract/wire/option-notes.ts`.
 */

import { isJsonObject as isObject, type JsonObject } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import { DPO_OPTIONS, RL_DEFAULTS, RL_OPTIONS, SFT_EXTENSIONS, SFT_OPTIONS } from '#contract/jobs/training.js'
import type { JobKind } from '../job-words.js'

const NESTED_NAMES: Readonly<Record<string, readonly string[]>> = {
  lora: ['rank', 'alpha', 'dropout', 'target_modules'],
  metric_logging: ['enabled', 'target_training_step'],
}

/** Where a kind of job takes options from, and which names it knows there. */
interface Place {
  readonly root: string
  readonly options: JsonObject
  readonly known: readonly string[]
}

export const OPTION_PLACES: Readonly<Record<JobKind, (config: JsonObject) => Place[]>> = {
  rl: (config) => [{ root: 'experimental_config', options: config, known: RL_OPTIONS }],
  sft: ({ experimental_config: nested, ...flat }) => [
    { root: 'config', options: flat, known: SFT_OPTIONS },
    ...(isObject(nested) ? [{ root: 'experimental_config', options: nested, known: SFT_EXTENSIONS }] : []),
  ],
  dpo: (config) => [{ root: 'config', options: config, known: DPO_OPTIONS }],
}

/** Names of the options of a kind of job. */
export function optionNames(kind: JobKind): readonly string[] {
  return OPTION_PLACES[kind]({})[0]?.known ?? []
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
  return [...findUnknownOptions(kind, config), ...findOverridden(kind, config), ...findUnneeded(kind, config)]
}

/** Of them those whose name is not known where it stands. */
export function findUnknownOptions(kind: JobKind, config: JsonObject): readonly OptionNote[] {
  const unknown = OPTION_PLACES[kind](config).flatMap(({ root, options, known }) => notesOn(options, [root], known))
  return kind === 'sft' ? unknown.map(placed) : unknown
}

/** An option that stands in the wrong one of two places is not unknown. */
function placed(note: OptionNote): OptionNote {
  const [root, name, ...inside] = note.path
  const isMisplaced = root === 'experimental_config' && inside.length === 0 && SFT_OPTIONS.includes(name ?? '')
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
  const given = Object.assign({}, ...OPTION_PLACES[kind](config).map(({ options }) => options)) as JsonObject
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
