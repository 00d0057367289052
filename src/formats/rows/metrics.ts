/**
 * Metrics of trajectory groups: what `POST /models/{id}/log` stores and what every gradient step reports about its rewards.
 *
 * Formulas and the prefix rule: `src/docs/reference/how-training-works.md`. Values that do not exist (a mean of nothing) are left
 * out, so no metric is ever NaN.
 */
import type { Trajectory, TrajectoryGroup } from './trajectory.js'
import { countTraining } from './which-train.js'

const PREFIXING_SPLITS = ['train', 'val', 'test']
const SECTIONS = ['reward', 'loss', 'throughput', 'costs', 'time', 'data']

/** Rewards and failures of a set of groups; keys are the bare names of gradient steps. */
export interface RewardMetrics {
  /** Mean reward over trajectories, not over groups; absent without trajectories. */
  readonly reward?: number
  /** Mean population standard deviation over groups of at least two; 0 if there is none. */
  readonly reward_std_dev: number
  /** Exceptions / (trajectories + exceptions); absent when both are none. */
  readonly exception_rate?: number
}

/** How much was submitted. */
export interface BatchCounts {
  readonly groupsSubmitted: number
  /** Groups that train where a reward is compared inside its group: metrics know no job. */
  readonly groupsTrainable: number
  readonly trajectories: number
  readonly exceptions: number
}

/** Computes the three reward metrics. */
export function rewardMetrics(groups: readonly TrajectoryGroup[]): RewardMetrics {
  const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.reward))
  const exceptions = groups.reduce((sum, group) => sum + group.exceptions.length, 0)
  const deviations = groups
    .filter((group) => group.trajectories.length >= 2)
    .map((group) => standardDeviation(group.trajectories.map((t) => t.reward)))
  return {
    ...(rewards.length > 0 ? { reward: mean(rewards) } : {}),
    reward_std_dev: deviations.length > 0 ? mean(deviations) : 0,
    ...(rewards.length + exceptions > 0 ? { exception_rate: exceptions / (rewards.length + exceptions) } : {}),
  }
}

/** Metrics of one trajectory: its length, where its tokens are known, and those that came with it, which go first. */
export function ownMetrics({ histories, metrics }: Trajectory): Readonly<Record<string, number>> {
  const counts = (histories[0]?.items ?? []).flatMap((item) =>
    item.kind === 'choice' ? (item.tokenIds?.length ?? item.tokens?.length ?? []) : [],
  )
  return counts.length === 0
    ? metrics
    : { completion_tokens: counts.reduce((sum, count) => sum + count, 0), ...metrics }
}

/** Counts groups, trajectories and exceptions. */
export function countBatch(groups: readonly TrajectoryGroup[]): BatchCounts {
  return {
    groupsSubmitted: groups.length,
    groupsTrainable: countTraining(groups.map((group) => group.trajectories.map((t) => t.reward))),
    trajectories: groups.reduce((sum, group) => sum + group.trajectories.length, 0),
    exceptions: groups.reduce((sum, group) => sum + group.exceptions.length, 0),
  }
}

/**
 * How stale the data of a train call is, under the name clients use.
 *
 * A group's version is the smallest initial policy version of its trajectories; groups without one are left out.
 *
 * @param currentStep step of the model that is trained
 * @returns mean of `currentStep` minus the group's version, or nothing when no group has one
 */
export function offPolicyMetrics(groups: readonly TrajectoryGroup[], currentStep: number): Record<string, number> {
  const lags = groups.flatMap((group) => {
    const versions = group.trajectories.flatMap((trajectory) => trajectory.initialPolicyVersion ?? [])
    return versions.length > 0 ? [currentStep - versions.reduce((a, b) => Math.min(a, b))] : []
  })
  return lags.length > 0 ? { 'train/steps_off_policy': mean(lags) } : {}
}

/**
 * Everything the log endpoint records for one split, names fully prefixed.
 *
 * @param split `train`, `val` and `test` keep names that already carry a section; any other split prefixes everything
 * @returns finite numbers only
 * @example logMetrics(groups, 'val')['val/reward']
 */
export function logMetrics(groups: readonly TrajectoryGroup[], split: string): Record<string, number> {
  const counts = countBatch(groups)
  const bare: Record<string, number> = {
    ...averageByName(groups.flatMap((group) => group.trajectories.map(ownMetrics))),
    ...prefixNames(
      averageByName(groups.filter((group) => group.trajectories.length > 0).map((group) => group.metrics)),
      'group_',
    ),
    ...rewardMetrics(groups),
    'data/step_num_scenarios': counts.groupsSubmitted,
    'data/step_num_trajectories': counts.trajectories + counts.exceptions,
    'data/step_num_groups_submitted': counts.groupsSubmitted,
    'data/step_num_groups_trainable': counts.groupsTrainable,
  }
  const entries = Object.entries(bare).filter(([, value]) => Number.isFinite(value))
  return Object.fromEntries(entries.map(([name, value]) => [metricName(name, split), value]))
}

/**
 * The full name of a metric in a split (the prefix rule).
 *
 * @example metricName('accuracy', 'val') // 'val/accuracy'
 * @example metricName('loss/train', 'train') // 'loss/train'
 */
export function metricName(name: string, split: string): string {
  const slash = name.indexOf('/')
  const section = slash === -1 ? null : name.slice(0, slash)
  const isComplete =
    PREFIXING_SPLITS.includes(split) &&
    section !== null &&
    (SECTIONS.includes(section) || PREFIXING_SPLITS.includes(section))
  return isComplete ? name : `${split}/${name}`
}

/** Distinct `metadata.scenario_id` values, the group's first and else the first one found on its trajectories. */
export function scenarioIds(groups: readonly TrajectoryGroup[]): string[] {
  const ids = groups.map((group) => {
    const found = [group.metadata, ...group.trajectories.map((t) => t.metadata)].map(
      (metadata) => metadata['scenario_id'] ?? null,
    )
    return found.find((id) => typeof id === 'string' || typeof id === 'number')
  })
  return [...new Set(ids.filter((id) => id !== undefined).map(String))]
}

/** Population standard deviation (divides by the count). */
export function standardDeviation(values: readonly number[]): number {
  const centre = mean(values)
  return Math.sqrt(mean(values.map((value) => (value - centre) ** 2)))
}

/** Divides first where the sum would leave float64, so that a mean of finite numbers is finite. */
function mean(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0)
  if (Number.isFinite(sum)) return sum / values.length
  return values.reduce((total, value) => total + value / values.length, 0)
}

/** Mean of each name over the maps that have it. */
function averageByName(maps: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const values = new Map<string, number[]>()
  for (const map of maps) {
    for (const [name, value] of Object.entries(map)) {
      const list = values.get(name)
      if (list === undefined) values.set(name, [value])
      else list.push(value)
    }
  }
  return Object.fromEntries([...values].map(([name, list]) => [name, mean(list)]))
}

function prefixNames(map: Readonly<Record<string, number>>, prefix: string): Record<string, number> {
  return Object.fromEntries(Object.entries(map).map(([name, value]) => [`${prefix}${name}`, value]))
}
