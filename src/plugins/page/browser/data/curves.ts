/**
 * Curves of a model: its numbers by step, made smooth, and told in a sentence. Pure.
 */
import type { MetricAxis, ModelMetrics } from '#contract/wire/model-metrics.js'
import { formatNumber } from './format.js'
import { metricWords } from './words.js'

export type Axis = MetricAxis
/** Lists are as long as `steps`; null where a step has none. */
export type Curves = ModelMetrics

/** Positions along an axis; steps where the axis is not known of every step. */
export function positionsOf(curves: Curves, axis: Axis): readonly number[] {
  if (axis === 'time') return curves.times.map((time) => Date.parse(time) / 1000)
  const { tokens } = curves
  return axis === 'tokens' && tokens.every((count) => count !== null) ? tokens.map(Number) : curves.steps
}

/** Where what made a step is shown; null for the base model, and where nobody knows any more. */
export function pathOfPoint(curves: Curves, index: number): string | null {
  const job = curves.job_ids[index] ?? null
  if (job !== null) return `/jobs/${encodeURIComponent(job)}`
  const session = curves.session_ids[index] ?? null
  return session === null ? null : `/sessions/${encodeURIComponent(session)}`
}

/**
 * An exponential moving average, corrected for its start (Adam, arXiv:1412.6980, section 3): the first value is the first value, not a
 * share of it. Gaps stay gaps.
 *
 * @param weight of what was before, 0 to below 1; 0 changes nothing
 */
export function smooth(values: readonly (number | null)[], weight: number): (number | null)[] {
  let mean = 0
  let count = 0
  return values.map((value) => {
    if (value === null) return null
    mean = weight * mean + (1 - weight) * value
    count += 1
    return mean / (1 - weight ** count)
  })
}

/** How many times the least value goes into the greatest before a plain scale shows a flat line. */
const DECADES = 1000

/** Whether a log scale shows more: every value has a place on it, and they span decades. */
export function spansDecades(values: readonly (number | null)[]): boolean {
  const known = values.filter((value) => value !== null)
  const least = known.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  const greatest = known.reduce((a, b) => Math.max(a, b), 0)
  return least > 0 && greatest / least >= DECADES
}

/** Places at which another loop begins, or steps of single jobs do: what came before says little of what comes then. */
export function boundariesOf(curves: Pick<Curves, 'session_ids' | 'job_ids'>): readonly number[] {
  const { session_ids: sessions, job_ids: jobs } = curves
  // of the base model, and of steps that were deleted, nobody knows who made them
  const isMade = (i: number): boolean => (sessions[i] ?? jobs[i] ?? null) !== null
  return sessions.flatMap((id, i) => (isMade(i - 1) && isMade(i) && id !== sessions[i - 1] ? [i] : []))
}

/** Where the best value is, of equals the newest; null for no value. @param wants which end is the better one */
export function bestOf(values: readonly (number | null)[], wants: 'high' | 'low'): number | null {
  let best: number | null = null
  let found = Number.NaN
  for (const [i, value] of values.entries()) {
    if (value === null || (best !== null && (wants === 'low' ? value > found : value < found))) continue
    best = i
    found = value
  }
  return best
}

/** `Reward from 0.41 at step 1 to 0.62 at step 11, highest 0.66 at step 9.` @param wants which end is the better one */
export function describeCurve(
  title: string,
  steps: readonly number[],
  values: readonly (number | null)[],
  wants: 'high' | 'low' | null,
): string {
  const known = values.flatMap((value, i) => (value === null ? [] : [{ value, step: steps[i] ?? 0 }]))
  const first = known[0]
  const last = known.at(-1)
  if (first === undefined || last === undefined) return `${title}: no value yet.`
  const at = ({ value, step }: { value: number; step: number }) => `${formatNumber(value)} at step ${step}`
  if (known.length === 1) return `${title} ${at(first)}.`
  const best = known.reduce((a, b) => ((wants === 'low' ? b.value < a.value : b.value > a.value) ? b : a))
  const word = wants === 'low' ? 'lowest' : 'highest'
  if (best === last) return `${title} from ${at(first)} to ${at(last)}, its ${word}.`
  return `${title} from ${at(first)} to ${at(last)}, ${word} ${at(best)}.`
}

/** What a number is called in charts and tables. */
interface MetricName {
  readonly key: string
  readonly title: string
  readonly wants: 'high' | 'low' | null
}

/** Of the others neither end is the better one by itself. */
const WANTS: Readonly<Record<string, 'high' | 'low'>> = {
  'train/reward': 'high',
  'held_out/reward': 'high',
  'val/reward': 'high',
  'loss/train': 'low',
  'loss/val': 'low',
}
/** What the service itself says of rollouts: everything else below `train/` is the reward's or the environment's own. */
const OURS = /^train\/(?:reward|completion_tokens|reward_std_dev|exception_rate|steps_off_policy|data\/.*|.*_std_dev)$/
/** Numbers of the user that are shown at first. */
const MOST_OWN = 6

export function nameOf(key: string): MetricName {
  return { key, title: metricWords(key), wants: WANTS[key] ?? null }
}

/**
 * The charts that are shown where nobody chose: rewards where there are some, else the loss; what a reward says beside
 * its number, where it changes; how long answers are; how much was trained; and what tells whether training is sound.
 */
export function defaultKeys(curves: Curves): readonly string[] {
  const has = (key: string) => curves.series[key]?.some((value) => value !== null) === true
  const outcome = ['train/reward', 'held_out/reward', 'val/reward'].filter(has)
  const first = outcome.length > 0 ? outcome : ['loss/train', 'loss/val'].filter(has)
  const changes = (key: string) => new Set(curves.series[key]?.filter((value) => value !== null)).size > 1
  const own = Object.keys(curves.series).filter((key) => key.startsWith('train/') && !OURS.test(key) && changes(key))
  const sound = [
    'train/completion_tokens',
    'data/step_trainer_tokens',
    'loss/kl_div',
    'loss/entropy',
    'loss/grad_norm',
  ].filter(has)
  return [...first, ...own.sort().slice(0, MOST_OWN), ...sound]
}
