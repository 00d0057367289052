/**
 * Whether a model learns: by the interval that Evaluations computes, between the first step that was evaluated and the newest.
 * Pure.
 */
import type { LogComparison } from '#contract/wire/log-comparison.js'
import type { Curves } from './curves.js'
import { formatNumber, plural } from './format.js'
import { metricWords } from './words.js'

export interface Evaluated {
  readonly split: string
  readonly a: number
  readonly b: number
}

/** Splits that people keep from training, by custom. */
const CUSTOM = ['val', 'held_out', 'test']

/** What was evaluated at two steps at least; null: nothing. */
export function evaluatedOf({ keys, series, steps }: Curves): Evaluated | null {
  const splits = keys.flatMap(({ key, source, split }) =>
    source === 'log' && split !== null && split !== 'train' && key === `${split}/reward` ? [split] : [],
  )
  const split = CUSTOM.find((name) => splits.includes(name)) ?? splits[0]
  if (split === undefined) return null
  const known = steps.filter((_, i) => series[`${split}/reward`]?.[i] != null)
  const [a, b] = [known[0], known.at(-1)]
  return a === undefined || b === undefined || a === b ? null : { split, a, b }
}

export interface Verdict {
  readonly word: 'Learns' | 'Does not learn' | 'Cannot be said yet'
  readonly why: string
}

/** @param compared of what was evaluated; null: nothing was, at two steps */
export function verdictOf(compared: LogComparison | null, name: string): Verdict {
  if (compared === null || compared.prompts === 0) {
    return {
      word: 'Cannot be said yet',
      why: `the same held-out prompts, evaluated at two steps of ${name}, tell it.`,
    }
  }
  const { a, b, split, rewards, interval, prompts } = compared
  const from = a.step === 0 ? 'the base model' : `step ${a.step}`
  const means = `${metricWords(`${split}/reward`)}: ${formatNumber(rewards[0])} → ${formatNumber(rewards[1])} from ${from} to step ${b.step}`
  if (interval === null) return { word: 'Cannot be said yet', why: `${means}, at ${plural(prompts, 'prompt')}.` }
  const range = `it changed by ${formatNumber(interval[0])} to ${formatNumber(interval[1])} (95%, ${plural(prompts, 'prompt')})`
  if (interval[0] > 0) return { word: 'Learns', why: `${means}; ${range}.` }
  if (interval[1] <= 0) return { word: 'Does not learn', why: `${means}; ${range}.` }
  return { word: 'Cannot be said yet', why: `${means}; ${range}, so it may be chance.` }
}
