/**
 * Options of a job by the size of its base model, where they were measured: the published defaults suit models of billions of
 * parameters. The command line, `trainyard/rl` and the fine-tuning API take them from here; who calls the training API itself
 * keeps the published defaults, and is told of these where they differ much.
 *
 * Knows sizes only: what a model is called says nothing.
 */

import type { JsonObject } from '#base/util/json.js'
import type { JobKind } from '#contract/wire/job-words.js'
import { DPO_DEFAULTS, RL_DEFAULTS, SFT_DEFAULTS } from './training.js'

/** Rates where none was measured. */
const PUBLISHED: Readonly<Record<JobKind, number>> = {
  rl: RL_DEFAULTS.learning_rate,
  sft: SFT_DEFAULTS.learning_rate,
  dpo: DPO_DEFAULTS.learning_rate,
}

interface BySize {
  /** Parameters; larger models go on to the next row. */
  readonly below: number
  readonly value: number
}

/** Below so many parameters a model counts as tiny. */
const TINY = 20_000_000

/**
 * Rates by size, smallest first; nothing larger was measured. spark learns at 1e-3 within a few jobs by RL and by examples, and falls
 * back at 4e-3; SmolLM2-135M learned at 3e-4 by RL, and by examples at rates up to 1e-3 that fall. Preferences push an answer away
 * without end: at 1e-3 spark forgot to speak, at 1e-4 it learned eight pairs in twelve steps and still answers.
 */
const RATES: Readonly<Record<JobKind, readonly BySize[]>> = {
  rl: [
    { below: TINY, value: 1e-3 },
    { below: 300_000_000, value: 3e-4 },
  ],
  sft: [
    { below: TINY, value: 1e-3 },
    { below: 300_000_000, value: 3e-4 },
  ],
  dpo: [{ below: TINY, value: 1e-4 }],
}

/**
 * Nats per token an update may move the policy: at the rate above tiny models fall without a limit, and come back within a few jobs
 * with this one. Larger models were not seen to fall at their rate, and would pay for the measurement.
 */
const TARGET_KL: readonly BySize[] = [{ below: TINY, value: 0.2 }]

/**
 * Tokens an optimizer step covers. The published default is rows of 2,048 tokens, right for models of billions of parameters on
 * thousands of answers; small ones learn from a few hundred short answers in more, smaller steps.
 */
const TOKENS_PER_STEP: readonly BySize[] = [
  { below: 50_000_000, value: 384 },
  { below: 1_000_000_000, value: 1024 },
]

/** Options that say how much an optimizer step covers. */
const STEP_OPTIONS = ['tokens_per_step', 'packed_sequence_length', 'grad_accumulation_sequences']

/** A rate below this share of the measured one is worth a warning. */
const SMALL_SHARE = 0.1

/**
 * The rate that was measured for models of this size.
 *
 * @param parameters of the base model; null where nobody knows them
 * @returns null where none was measured
 */
export function measuredRate(kind: JobKind, parameters: number | null): number | null {
  return valueFor(RATES[kind], parameters)
}

/** The rate of a job whose request names none. */
export function publishedRate(kind: JobKind): number {
  return PUBLISHED[kind]
}

/**
 * What a job of a model of this size runs with where nobody says otherwise.
 *
 * @param given options of the request, by their names in the API; one that is there stays, null as well, which asks for the
 *   published default
 * @returns the options to add; none for models of a size that was not measured
 * @example sizeDefaults('rl', {}, 4_500_000) // { learning_rate: 1e-3, target_kl: 0.2, tokens_per_step: 384 }
 */
export function sizeDefaults(
  kind: JobKind,
  given: JsonObject,
  parameters: number | null,
): Readonly<Record<string, number>> {
  const isGiven = (name: string): boolean => given[name] !== undefined
  const found: Record<string, number | null> = {}
  if (!isGiven('learning_rate')) found['learning_rate'] = measuredRate(kind, parameters)
  if (kind === 'rl' && !isGiven('target_kl')) found['target_kl'] = valueFor(TARGET_KL, parameters)
  if (kind === 'rl' && !STEP_OPTIONS.some(isGiven)) found['tokens_per_step'] = valueFor(TOKENS_PER_STEP, parameters)
  return Object.fromEntries(Object.entries(found).flatMap(([name, value]) => (value === null ? [] : [[name, value]])))
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
  const measured = measuredRate(kind, parameters)
  // a rate of 0 is meant
  if (measured === null || parameters === null || rate === 0 || rate > SMALL_SHARE * measured) return null
  return `a learning rate of ${rate.toExponential()} hardly moves a base model of ${millions(parameters)}: ${measured.toExponential()} was measured for this size (${option})`
}

/** @example millions(4_491_520) // '4.5 million parameters' */
export function millions(parameters: number): string {
  const count = Math.round(parameters / 1e5) / 10
  return `${count} million parameter${count === 1 ? '' : 's'}`
}

function valueFor(rows: readonly BySize[], parameters: number | null): number | null {
  return rows.find(({ below }) => parameters !== null && parameters < below)?.value ?? null
}
