/**
 * Metrics of what was logged under one split at one step, pooled over any number of log calls.
 *
 * A pooled value is that of one call with all the groups: means are weighted by the trajectories (or groups, or attempts) they were
 * taken over, counts add up. A mean of finite numbers is always finite, also where their sum is not. Rules for the best checkpoint read
 * these values. Knows no storage; formulas of one call are in `metrics.ts`.
 */
import type { JsonObject } from '#base/util/json.js'
import { countBatch, metricName, ownMetrics, rewardMetrics } from './metrics.js'
import type { TrajectoryGroup } from './trajectory.js'

/** A mean over `weight` things, or a count, which has no weight. */
export interface Total {
  readonly value: number
  readonly weight: number | null
}

/** By full name. */
export type SplitTotals = ReadonlyMap<string, Total>

/**
 * The totals of one log call.
 *
 * @param split counts are always named under it (`val/data/step_num_trajectories`): the bare names are training's own
 */
export function splitTotals(groups: readonly TrajectoryGroup[], split: string): SplitTotals {
  const trajectories = groups.flatMap((group) => group.trajectories)
  const counts = countBatch(groups)
  const rewards = rewardMetrics(groups)
  const totals = new Map<string, Total>()
  const addMean = (name: string, value: number | undefined, weight: number): void => {
    if (value !== undefined) totals.set(metricName(name, split), { value, weight })
  }
  addMeans(trajectories.map(ownMetrics), addMean)
  const withTrajectories = groups.filter((group) => group.trajectories.length > 0)
  addMeans(
    withTrajectories.map((group) => group.metrics),
    (name, value, weight) => addMean(`group_${name}`, value, weight),
  )
  addMean('reward', rewards.reward, counts.trajectories)
  addMean('reward_std_dev', rewards.reward_std_dev, groups.filter((group) => group.trajectories.length >= 2).length)
  addMean('exception_rate', rewards.exception_rate, counts.trajectories + counts.exceptions)
  const addCount = (name: string, value: number): void => {
    totals.set(`${split}/data/${name}`, { value, weight: null })
  }
  addCount('step_num_scenarios', counts.groupsSubmitted)
  addCount('step_num_trajectories', counts.trajectories + counts.exceptions)
  addCount('step_num_groups_submitted', counts.groupsSubmitted)
  addCount('step_num_groups_trainable', counts.groupsTrainable)
  return totals
}

/** The totals of both sets of groups together. */
export function poolTotals(before: SplitTotals, added: SplitTotals): SplitTotals {
  const pooled = new Map(before)
  for (const [name, total] of added) {
    const old = before.get(name)
    pooled.set(name, old === undefined ? total : pool(old, total))
  }
  return pooled
}

function pool(a: Total, b: Total): Total {
  if (a.weight === null || b.weight === null) return { value: a.value + b.value, weight: null }
  const weight = a.weight + b.weight
  // a mean over nothing yields to one over something
  if (weight === 0) return b
  return { value: a.value * (a.weight / weight) + b.value * (b.weight / weight), weight }
}

/** Values by name. */
export function toMetrics(totals: SplitTotals): Record<string, number> {
  return Object.fromEntries([...totals].map(([name, { value }]) => [name, value]))
}

/** Beside the totals: no name of a metric has a split that is empty. */
const MEASUREMENT = '/measurement'

/** Totals as JSON: name → [value, weight]. @param measurement what they are of, where all of it is one */
export function encodeTotals(totals: SplitTotals, measurement: string | null = null): JsonObject {
  const entries = [...totals].map(([name, { value, weight }]) => [name, [value, weight]])
  return { ...Object.fromEntries(entries), ...(measurement === null ? {} : { [MEASUREMENT]: measurement }) }
}

/** What the totals are of; null where they are pooled, or nobody said. */
export function measurementOf(json: JsonObject | null): string | null {
  const named = json?.[MEASUREMENT]
  return typeof named === 'string' ? named : null
}

/** The opposite of `encodeTotals`; entries of another form are left out. */
export function decodeTotals(json: JsonObject | null): SplitTotals {
  const totals = new Map<string, Total>()
  for (const [name, entry] of Object.entries(json ?? {})) {
    if (!Array.isArray(entry)) continue
    const [value, weight] = entry
    if (typeof value !== 'number') continue
    totals.set(name, { value, weight: typeof weight === 'number' ? weight : null })
  }
  return totals
}

/** Hands over the mean of each name over the maps that have it. */
function addMeans(
  maps: readonly Readonly<Record<string, number>>[],
  add: (name: string, value: number, weight: number) => void,
): void {
  const means = new Map<string, { value: number; weight: number; sum: number }>()
  for (const map of maps) {
    for (const [name, value] of Object.entries(map)) {
      const mean = means.get(name) ?? { value: 0, weight: 0, sum: 0 }
      mean.weight += 1
      // a running mean, which stays in the range of numbers where the sum leaves it
      mean.value += value / mean.weight - mean.value / mean.weight
      mean.sum += value
      means.set(name, mean)
    }
  }
  for (const [name, { value, weight, sum }] of means) add(name, Number.isFinite(sum) ? sum / weight : value, weight)
}
