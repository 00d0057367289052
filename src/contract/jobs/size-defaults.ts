/**
 * Options of a job by the size of its base model, where they were measured: the published defaults suit models of billions of
 * parameters. The command line, `trainyard/rl` and the fine-tuning API take them from here; who calls the training API itself
 * keeps the published defaults, and is told of these where they differ much.
 *
 * Knows sizes only: what a model is called says nothing.
 */

import type { JsonObject } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { JOB_DEFINITIONS } from './kinds.js'
import type { OptionRow } from './option.js'
import { ENOUGH_ROWS, MOST_PASSES } from './shared-options.js'

/** A rate below this share of the measured one is worth a warning. */
const SMALL_SHARE = 0.1

/**
 * The rate that was measured for models of this size.
 *
 * @param parameters of the base model; null where nobody knows them
 * @returns null where none was measured
 */
export function measuredRate(kind: JobKind, parameters: number | null): number | null {
  return measured(JOB_DEFINITIONS[kind].options['learning_rate'], parameters)
}

/** The rate of a job whose request names none. */
export function publishedRate(kind: JobKind): number {
  return Number(JOB_DEFINITIONS[kind].options['learning_rate']?.default)
}

/**
 * What a job of a model of this size runs with where nobody says otherwise.
 *
 * @param given options of the request, by their names in the API; one that is there stays, null as well, which asks for the
 *   published default
 * @returns the options to add; none for models of a size that was not measured
 * @example sizeDefaults('rl', {}, 4_500_000) // { learning_rate: 1e-3, advantage_balance: 1, target_kl: 0.2, tokens_per_step: 384 }
 */
export function sizeDefaults(
  kind: JobKind,
  given: JsonObject,
  parameters: number | null,
): Readonly<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const [name, row] of Object.entries(JOB_DEFINITIONS[kind].options)) {
    const value = measured(row, parameters)
    const isGiven = [name, ...(row.bySizeUnless ?? [])].some((each) => given[each] !== undefined)
    if (value !== null && !isGiven) found[name] = value
  }
  return found
}

/**
 * What the command line, the library and the fine-tuning API ask for whatever the size, where nobody says otherwise and the published default is
 * another.
 *
 * @param given options of the request, by their names in the API; one that is there stays
 * @example advisedOptions('sft', {}) // { shuffle: true }
 */
export function advisedOptions(kind: JobKind, given: JsonObject): Readonly<Record<string, boolean>> {
  const advised = Object.entries(JOB_DEFINITIONS[kind].options).flatMap(([name, row]) =>
    row.type === 'boolean' && row.advised !== undefined && given[name] === undefined ? [[name, row.advised]] : [],
  )
  return Object.fromEntries(advised)
}

/**
 * How often a supervised job should go through few rows, where nobody says otherwise: one pass over a hundred examples leaves most of
 * what they show unlearned. Of the built-in model, held out: own labels, 128 rows: 0.57 and 0.77 after one pass, 1.00 after three; JSON
 * with own keys, 60 rows: 0.21 after one, 0.45 after three, 0.55 after six, 0.60 after ten.
 *
 * @returns passes, 1 from 400 rows on
 * @example advisedEpochs(128) // 4
 */
export function advisedEpochs(rows: number): number {
  return Math.max(1, Math.min(MOST_PASSES, Math.ceil(ENOUGH_ROWS / Math.max(1, rows))))
}

/**
 * The passes over rows where the request leaves them open.
 *
 * @returns null where it says how many: by `epochs`, or by a list of rates, which has one for each step
 * @example openPasses({ learning_rate: 1e-3 }, 128) // 4
 */
export function openPasses(given: JsonObject, rows: number): number | null {
  return given['epochs'] === undefined && !Array.isArray(given['learning_rate']) ? advisedEpochs(rows) : null
}

/**
 * Says that a rate is far below what was measured for the size of the model, and names that one.
 *
 * @param rate of the job; of several the largest
 * @param option where the request gives a rate, for example `config.learning_rate`
 */
export function smallRateWarning(
  kind: JobKind,
  { rate, option, parameters }: { readonly rate: number; readonly option: string; readonly parameters: number | null },
): string | null {
  const better = measuredRate(kind, parameters)
  // a rate of 0 is meant
  if (better === null || parameters === null || rate === 0 || rate > SMALL_SHARE * better) return null
  return `a learning rate of ${rate.toExponential()} hardly moves a base model of ${millions(parameters)}: ${better.toExponential()} was measured for this size (${option})`
}

/** @example millions(4_491_520) // '4.5 million parameters' */
export function millions(parameters: number): string {
  const count = Math.round(parameters / 1e5) / 10
  return `${count} million parameter${count === 1 ? '' : 's'}`
}

function measured(row: OptionRow | undefined, parameters: number | null): number | null {
  if (parameters === null) return null
  return row?.bySize?.find(({ below }) => parameters < below)?.value ?? null
}
