/**
 * Which checkpoints of a model stay: `all`, or parts of `last 5, best val/reward, every 10`, of which each says what it keeps.
 *
 * Plain words, the same in the setting, in a model's own rule and on the page. Deletes nothing; what is never deleted, whatever the
 * rule says, is `service/operations/models/kept-checkpoints.ts`.
 */
import { isLowerBetter } from './best-metric.js'

/** A rule; all that some part of it names stays. */
export interface KeepRule {
  /** So many newest ones; at least the newest. */
  readonly last: number
  /** By each of these metrics the best one; of equals the newest. */
  readonly best: readonly string[]
  /** Steps that are multiples of it; null: none for that. */
  readonly every: number | null
}

/** As it is told to who wrote another one. */
export const KEEP_RULE_FORM = 'all, or parts of "last 5, best val/reward, every 10"'
export const KEEP_ALL = 'all'
/** Longest text of a rule. */
export const MAX_KEEP_RULE = 500

/** @returns null for `all`; a text that says what is wrong */
export function parseKeepRule(text: string): KeepRule | null | string {
  const parts = text.split(',').map((part) => part.trim())
  if (parts.length === 1 && parts[0] === KEEP_ALL) return null
  let [last, every]: [number | null, number | null] = [null, null]
  const best: string[] = []
  for (const part of parts) {
    const [, word, value = ''] = /^(last|best|every)\s+(\S+)$/.exec(part) ?? []
    if (word === 'best') best.push(value)
    else if (word === undefined || !/^[1-9]\d{0,6}$/.test(value)) return `"${part.slice(0, 60)}" is no part of a rule`
    else if (word === 'last' && last === null) last = Number(value)
    else if (word === 'every' && every === null) every = Number(value)
    else return `"${word}" stands twice`
  }
  return { last: last ?? 1, best, every }
}

/** A step with what was measured at it. */
export interface MeasuredStep {
  readonly step: number
  readonly metrics: Readonly<Record<string, number>>
}

/** The steps that a rule keeps, of those that exist. @param steps ascending */
export function keptSteps(steps: readonly MeasuredStep[], { last, best, every }: KeepRule): ReadonlySet<number> {
  const kept = new Set(steps.slice(-Math.max(1, last)).map(({ step }) => step))
  if (every !== null) for (const { step } of steps) if (step % every === 0) kept.add(step)
  for (const metric of best) {
    const sign = isLowerBetter(metric) ? -1 : 1
    let found: { readonly step: number; readonly value: number } | null = null
    for (const { step, metrics } of steps) {
      const value = metrics[metric]
      if (value !== undefined && (found === null || sign * (value - found.value) >= 0)) found = { step, value }
    }
    if (found !== null) kept.add(found.step)
  }
  return kept
}
