/**
 * Options of a training job that have no effect: found by name and by what they need, without the schemas, so that a command can
 * look before anything is sent. What is said or refused because of them: `contract/jobs/option-notes.ts`.
 */

import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { closest } from '#base/util/suggest.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { JOB_DEFINITIONS } from './kinds.js'
import { isSet, namesOf, type OptionTable, rowOf } from './option.js'

/** Where a kind of job takes options from, and those that it takes there. */
interface Place {
  readonly root: string
  readonly options: JsonObject
  readonly table: OptionTable
}

/** @param config as stored with the job: a second place stands inside */
export function optionPlaces(kind: JobKind, config: JsonObject): readonly Place[] {
  const { root, secondRoot, options: table } = JOB_DEFINITIONS[kind]
  if (secondRoot === undefined) return [{ root, options: config, table }]
  const { [secondRoot]: nested, ...flat } = config
  const first = { root, options: flat, table }
  if (!isJsonObject(nested)) return [first]
  const extensions = Object.fromEntries(Object.entries(table).filter(([, row]) => row.isExtension === true))
  return [first, { root: secondRoot, options: nested, table: extensions }]
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
  const { root: first, options: table } = JOB_DEFINITIONS[kind]
  return optionPlaces(kind, config).flatMap((place) =>
    notesOn(place.options, [place.root], place.table).map((note) => {
      // an option that stands in the wrong one of two places is not unknown
      const [root, name = '', ...inside] = note.path
      const isMisplaced = root !== first && inside.length === 0 && rowOf(table, name) !== undefined
      return isMisplaced
        ? { ...note, message: `${root}.${name} has no effect there: it is an option of ${first}` }
        : note
    }),
  )
}

/** Options that stand in both places of a job with different values: those of the first are taken. */
function findOverridden(kind: JobKind, config: JsonObject): OptionNote[] {
  const [first, second] = optionPlaces(kind, config)
  if (first === undefined || second === undefined) return []
  return namesOf(second.table).flatMap((name) => {
    const [taken, passedOver] = [first.options[name] ?? null, second.options[name] ?? null]
    if (taken === null || passedOver === null || JSON.stringify(taken) === JSON.stringify(passedOver)) return []
    return [
      {
        path: [second.root, name],
        message: `${second.root}.${name} has no effect beside ${first.root}.${name}, which says otherwise`,
      },
    ]
  })
}

interface NeedyOption {
  readonly name: string
  readonly row: OptionTable[string]
  readonly needs: NonNullable<OptionTable[string]['needs']>
}

/** Of a table's options those that need others: few of many, and asked for every job of a list. */
const needyOptions = new Map<OptionTable, readonly NeedyOption[]>()

function needyOptionsOf(table: OptionTable): readonly NeedyOption[] {
  const known = needyOptions.get(table)
  if (known !== undefined) return known
  const found = Object.entries(table).flatMap(([name, row]) =>
    row.needs === undefined ? [] : { name, row, needs: row.needs },
  )
  needyOptions.set(table, found)
  return found
}

/** Known options that another one, left out, keeps from having an effect. */
function findUnneeded(kind: JobKind, config: JsonObject): OptionNote[] {
  const { root, options: table } = JOB_DEFINITIONS[kind]
  const given: JsonObject = {}
  for (const { options } of optionPlaces(kind, config)) Object.assign(given, options)
  return needyOptionsOf(table).flatMap(({ name, row, needs }) => {
    if (!isSet(row, given[name]) || needs.any.some((other) => isSet(table[other], given[other]))) return []
    return [{ path: [root, name], message: `${root}.${name} has no effect without ${needs.said}` }]
  })
}

function notesOn(options: JsonObject, path: readonly string[], table: OptionTable): OptionNote[] {
  return Object.entries(options).flatMap(([name, value]): OptionNote[] => {
    const at = [...path, name]
    const row = rowOf(table, name)
    if (row === undefined) return [{ path: at, message: describeUnknown(at, namesOf(table)) }]
    return row.type === 'object' && isJsonObject(value) ? notesOn(value, at, row.rows) : []
  })
}

/** What TRL calls options of ours; of several the first that a kind of job has. */
const OF_TRL: Readonly<Record<string, readonly string[]>> = {
  num_iterations: ['num_passes'],
  num_train_epochs: ['epochs', 'num_passes'],
  per_device_train_batch_size: ['batch_size', 'tokens_per_step'],
  gradient_accumulation_steps: ['grad_accumulation_sequences', 'batch_size'],
  lr_scheduler_type: ['learning_rate_schedule'],
  mask_truncated_completions: ['mask_truncated'],
  vllm_importance_sampling_cap: ['truncated_importance_sampling'],
  ref_model_sync_steps: ['kl_penalty_step_lag'],
  max_length: ['packed_sequence_length'],
  eval_steps: ['validation_interval'],
  load_best_model_at_end: ['keep_best'],
  assistant_only_loss: ['assistant_turns'],
  label_smoothing_factor: ['label_smoothing'],
  lora_r: ['lora'],
  lora_alpha: ['lora'],
  loss_type: ['loss_fn'],
}

function describeUnknown(path: readonly string[], known: readonly string[]): string {
  const name = (path.at(-1) ?? '').slice(0, 100)
  const ours = Object.hasOwn(OF_TRL, name) ? OF_TRL[name]?.find((each) => known.includes(each)) : undefined
  const near = ours ?? closest(name, known)
  const where = [...path.slice(0, -1), name].join('.')
  return `${where} is not a known option and has no effect${near === undefined ? '' : `; did you mean "${near}"?`}`
}
