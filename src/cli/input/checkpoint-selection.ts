/**
 * Which checkpoints a command means: `latest`, `best:<metric>`, `last:<n>`, `every:<n>`, or steps. Pure.
 *
 * A metric whose name holds "loss", "error" or "exception" is better when smaller; every other one when larger.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { ExpectedError } from '#cli/config/parse-value.js'
import { isLowerBetter } from '#contract/jobs/best-metric.js'
import type { Checkpoint } from '#contract/wire/checkpoints.js'
import { UsageError } from '../terminal/errors.js'
import { formatNumber } from '../terminal/format.js'
import { parseInteger } from './parse.js'

export type KeepRule =
  | { readonly kind: 'latest' }
  | { readonly kind: 'best'; readonly metric: string }
  | { readonly kind: 'last'; readonly count: number }
  | { readonly kind: 'every'; readonly interval: number }

/** Metric of `best` when none is named: what `trainyard log` records. */
export const DEFAULT_METRIC = 'val/reward'

/** Parses `latest`, `best[:<metric>]`, `last:<n>`, `every:<n>`. */
export function parseKeepRule(text: string): KeepRule {
  const [word, ...rest] = text.split(':')
  const value = rest.join(':')
  if (word === 'latest' && rest.length === 0) return { kind: 'latest' }
  if (word === 'best') return { kind: 'best', metric: value === '' ? DEFAULT_METRIC : value }
  if (word === 'last' && value !== '') return { kind: 'last', count: parseInteger(value, 1) }
  if (word === 'every' && value !== '') return { kind: 'every', interval: parseInteger(value, 1) }
  throw new ExpectedError('latest, best:<metric>, last:<n> or every:<n>')
}

/**
 * Applies rules; a checkpoint any rule wants stays, and so does step 0, the untrained adapter.
 *
 * @returns reasons by step for those that stay, and the steps that go, both ascending
 * @throws {UsageError} `metric_not_found` when `best` names a metric no checkpoint has: nothing may go by mistake
 */
export function applyKeepRules(
  checkpoints: readonly Checkpoint[],
  rules: readonly KeepRule[],
): { readonly kept: ReadonlyMap<number, readonly string[]>; readonly deleted: readonly number[] } {
  const ascending = [...checkpoints].sort((a, b) => a.step - b.step)
  const kept = new Map<number, string[]>()
  const keep = (step: number, reason: string) => kept.set(step, [...(kept.get(step) ?? []), reason])
  for (const rule of rules) {
    switch (rule.kind) {
      case 'latest':
        for (const checkpoint of ascending.slice(-1)) keep(checkpoint.step, 'latest')
        break
      case 'last':
        for (const checkpoint of ascending.slice(-rule.count)) keep(checkpoint.step, `last ${rule.count}`)
        break
      case 'every':
        for (const { step } of ascending) if (step % rule.interval === 0) keep(step, `every ${rule.interval}`)
        break
      case 'best': {
        const best = findBest(ascending, rule.metric)
        keep(best.step, `best ${rule.metric} ${formatNumber(best.metrics[rule.metric] ?? 0)}`)
      }
    }
  }
  if (ascending[0]?.step === 0 && !kept.has(0)) keep(0, 'untrained')
  return {
    kept: new Map([...kept].sort(([a], [b]) => a - b)),
    deleted: ascending.map(({ step }) => step).filter((step) => !kept.has(step)),
  }
}

/**
 * The best checkpoint by a metric, the lowest or the highest as `isLowerBetter` says; of equals the newest.
 *
 * @throws {UsageError} `metric_not_found` naming the metrics there are
 */
export function findBest(checkpoints: readonly Checkpoint[], metric: string): Checkpoint {
  const sign = isLowerBetter(metric) ? -1 : 1
  let best: Checkpoint | undefined
  for (const checkpoint of [...checkpoints].sort((a, b) => a.step - b.step)) {
    const value = checkpoint.metrics[metric]
    if (value === undefined) continue
    if (best === undefined || sign * value >= sign * (best.metrics[metric] ?? 0)) best = checkpoint
  }
  if (best !== undefined) return best
  const known = [...new Set(checkpoints.flatMap((checkpoint) => Object.keys(checkpoint.metrics)))].sort()
  throw new UsageError('metric_not_found', `no checkpoint has the metric "${metric}"`, {
    hint: known.length === 0 ? 'trainyard log records val/reward' : `metrics: ${known.slice(0, 12).join(', ')}`,
  })
}

/**
 * The one checkpoint of `<n>`, `latest` or `best[:<metric>]`.
 *
 * @throws {NotFoundError} `checkpoint_not_found`; {UsageError} `metric_not_found`
 */
export function selectCheckpoint(checkpoints: readonly Checkpoint[], choice: StepChoice): Checkpoint {
  if (choice.kind === 'best') return findBest(checkpoints, choice.metric)
  const found =
    choice.kind === 'step'
      ? checkpoints.find((checkpoint) => checkpoint.step === choice.step)
      : [...checkpoints].sort((a, b) => a.step - b.step).at(-1)
  if (found !== undefined) return found
  const what = choice.kind === 'step' ? `checkpoint step ${choice.step}` : 'a checkpoint'
  const steps = checkpoints.map((checkpoint) => checkpoint.step)
  throw new NotFoundError('checkpoint_not_found', `${what} was not found`, {
    hint: steps.length === 0 ? 'the model has no checkpoint yet' : `there are steps ${formatSteps(steps)}`,
  })
}

export type StepChoice =
  | { readonly kind: 'step'; readonly step: number }
  | { readonly kind: 'latest' }
  | { readonly kind: 'best'; readonly metric: string }

/** Parses `<n>`, `latest`, `best[:<metric>]`. */
export function parseStepChoice(text: string): StepChoice {
  if (text === 'latest') return { kind: 'latest' }
  if (text === 'best') return { kind: 'best', metric: DEFAULT_METRIC }
  if (text.startsWith('best:') && text.length > 5) return { kind: 'best', metric: text.slice(5) }
  if (/^\d{1,9}$/.test(text)) return { kind: 'step', step: Number(text) }
  throw new ExpectedError('a step number, latest, best or best:<metric>')
}

/** [1, 2, 3, 5] → `1-3, 5`. */
export function formatSteps(steps: readonly number[]): string {
  const parts: string[] = []
  const ascending = [...steps].sort((a, b) => a - b)
  for (let i = 0; i < ascending.length; ) {
    let last = i
    while (ascending[last + 1] === (ascending[last] ?? 0) + 1) last += 1
    parts.push(last === i ? `${ascending[i]}` : `${ascending[i]}-${ascending[last]}`)
    i = last + 1
  }
  return parts.join(', ')
}

/** Shown where nobody names any, in this order. */
const USUAL_METRICS = ['val/reward', 'held_out/reward', 'train/reward', 'reward', 'val/loss', 'loss/train', 'sft/loss']

/** What a table shows when no metric is named: the first three of the usual ones that there are. */
export function usualMetrics(names: readonly string[]): readonly string[] {
  return USUAL_METRICS.filter((name) => names.includes(name)).slice(0, 3)
}
