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
import { MEASURED } from './shared-options.js'

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

/** What a supervised job goes through, as far as whoever asks for it knows. */
export interface RowsAtHand {
  readonly rows: number
  /** Of all of them as JSON. */
  readonly bytes: number
  /** Of the base model; null where nobody knows them. */
  readonly parameters: number | null
  /** Whether it is measured on rows of another file. */
  readonly hasValidation: boolean
}

/** Conversations that a job of a set number of passes goes through, and how often at most. */
const [ENOUGH_ROWS, MOST_PASSES] = [400, 6]
/** Bytes of JSON that make a token, roughly: names of fields and quotes are none. */
const BYTES_PER_TOKEN = 4
/** Parameters times tokens that two cores train in about ten minutes: the built-in model made 7e9 to 1.2e10 a second. */
const MOST_WORK = 6e12
/** So many passes have shown what rows have. */
const MOST_PASSES_MEASURED = 40
/** Fewer rows are too few to hold some out; below the second number a tenth of them is. */
const [FEWEST_TO_SPLIT, FEW_TO_SPLIT] = [20, 100]
/** More held-out rows tell no more, and are not trained. */
const MOST_HELD_OUT = 500
/** Measurements without a better one: the loss of a dozen rows rises now and then on its way down. */
const PATIENCE = 3
/** Nats per token that no answer shows: a loss creeps towards 0 for as long as it is let. */
const NO_BETTER = 0.001

/**
 * How long a supervised job trains where the request leaves that open: of base models of the measured sizes until the loss of
 * held-out rows stops falling, within bounds of passes and work that follow from the data alone, so that the same request is
 * the same job. Of others, and of too few rows to hold some out, a number of passes: one over a hundred examples leaves most of
 * what they show unlearned.
 *
 * Of the built-in model, held out, informal dates: 400 rows 0.13 and 0.25 after one pass, 1.00 after five.
 *
 * @returns the options to add; none where the request says how many passes, or has rates for each step
 * @example openPasses({}, { rows: 128, bytes: 20_000, parameters: 4_491_520, hasValidation: false })
 *   // { epochs: 40, early_stopping_patience: 3, early_stopping_min_delta: 0.001, validation_split: 0.1, seed: 0 }
 */
export function openPasses(given: JsonObject, at: RowsAtHand): Readonly<Record<string, number>> {
  const { rows, bytes, parameters, hasValidation } = at
  if (given['epochs'] !== undefined || Array.isArray(given['learning_rate'])) return {}
  const advised = Math.max(1, Math.min(MOST_PASSES, Math.ceil(ENOUGH_ROWS / Math.max(1, rows))))
  const split = given['validation_split'] ?? (rows < FEWEST_TO_SPLIT ? 0 : shareOf(rows))
  const isMeasured = hasValidation || Number(split) > 0
  // a schedule falls over all passes, and would be cut in its middle
  const hasCourse = ['learning_rate_schedule', 'warmup_ratio'].some((name) => given[name] !== undefined)
  if (!isMeasured || hasCourse || parameters === null || parameters >= MEASURED) return { epochs: advised }
  const affordable = Math.floor((MOST_WORK * BYTES_PER_TOKEN) / (parameters * Math.max(1, bytes)))
  return {
    epochs: Math.max(advised, Math.min(MOST_PASSES_MEASURED, affordable)),
    ...(given['early_stopping_patience'] === undefined
      ? { early_stopping_patience: PATIENCE, early_stopping_min_delta: NO_BETTER }
      : {}),
    ...(hasValidation || given['validation_split'] !== undefined ? {} : { validation_split: Number(split) }),
    // the next job on these rows holds out the same ones, and is measured on none that this one has seen
    ...(hasValidation || given['seed'] !== undefined ? {} : { seed: 0 }),
  }
}

const shareOf = (rows: number): number => {
  const share = Math.min(rows < FEW_TO_SPLIT ? 0.2 : 0.1, MOST_HELD_OUT / rows)
  return Number(share.toPrecision(3))
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
