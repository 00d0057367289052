/**
 * The groups of a job as they are listed: figures of each, filtered, ordered, and how rewards spread over them.
 */
import type { RolloutSequence, RolloutsHead } from '#contract/processes/rollouts.js'
import type {
  ListRolloutGroupsQuery,
  RolloutGroup,
  RolloutGroupList,
  Spread,
} from '#contract/wire/training/rollouts.js'
import { standardDeviation } from '#formats/rows/metrics.js'

/** Bars of a histogram. */
const BARS = 10

type Group = RolloutsHead['groups'][number]

/** The sequences of each group that has some, in the order they trained. */
export function sequencesByGroup({ sequences }: RolloutsHead): ReadonlyMap<number, readonly RolloutSequence[]> {
  const ofGroup = new Map<number, RolloutSequence[]>()
  for (const sequence of sequences) {
    const list = ofGroup.get(sequence.group)
    if (list === undefined) ofGroup.set(sequence.group, [sequence])
    else list.push(sequence)
  }
  return ofGroup
}

/** The rows of all groups, in the order they were sent. */
export function toGroupRows(
  { groups }: RolloutsHead,
  ofGroup: ReadonlyMap<number, readonly RolloutSequence[]>,
): RolloutGroup[] {
  return groups.map((group, index) => toGroupRow(group, index, ofGroup.get(index) ?? []))
}

function toGroupRow(group: Group, index: number, sequences: readonly RolloutSequence[]): RolloutGroup {
  const { trajectories } = group
  const rewards = trajectories.map(({ reward }) => reward)
  const training = trajectories.filter(({ left_out: reason }) => reason === undefined)
  const reasons = trajectories.flatMap(({ left_out: reason }) => reason ?? [])
  return {
    id: String(index),
    object: 'training.rollout_group',
    index,
    prompt_preview: group.preview,
    trajectories: trajectories.length,
    exceptions: group.exceptions,
    trained: training.length,
    mean_reward: spreadOf(rewards)?.mean ?? null,
    reward_std_dev: rewards.length === 0 ? null : standardDeviation(rewards),
    reward: spreadOf(rewards),
    advantage: spreadOf(training.flatMap(({ advantage }) => advantage ?? [])),
    tokens: spreadOf(training.map(({ tokens }) => tokens)),
    entropy: entropyOf(sequences),
    cut_off: trajectories.filter(({ is_cut: isCut }) => isCut === true).length,
    left_out: training.length > 0 ? null : mostFrequent(reasons),
  }
}

/** Mean over the trained tokens of sequences; null where nothing was noted. */
export function entropyOf(sequences: readonly RolloutSequence[]): number | null {
  const noted = sequences.filter(({ entropy, trained }) => entropy !== null && trained > 0)
  const tokens = noted.reduce((sum, { trained }) => sum + trained, 0)
  return tokens === 0 ? null : noted.reduce((sum, { entropy }) => sum + (entropy ?? 0), 0) / tokens
}

const VALUE_OF = {
  index: ({ index }) => index,
  mean_reward: ({ mean_reward: mean }) => mean,
  reward_std_dev: ({ reward_std_dev: deviation }) => deviation,
  entropy: ({ entropy }) => entropy,
  tokens: ({ tokens }) => tokens?.max ?? null,
} as const satisfies Readonly<Record<string, (row: RolloutGroup) => number | null>>

/** The chosen groups in their order; those without the value that orders them come last. */
export function chooseGroups(
  head: RolloutsHead,
  rows: readonly RolloutGroup[],
  { sort = 'index', min_reward: min, max_reward: max, trained }: Omit<ListRolloutGroupsQuery, 'after' | 'limit'>,
): RolloutGroup[] {
  const isWithin = (reward: number): boolean => reward >= (min ?? -Infinity) && reward <= (max ?? Infinity)
  const chosen = rows.filter((row) => {
    if (trained !== undefined && row.trained > 0 !== (trained === 'true')) return false
    if (min === undefined && max === undefined) return true
    return head.groups[row.index]?.trajectories.some(({ reward }) => isWithin(reward)) === true
  })
  const isFalling = sort.startsWith('-')
  const orderBy = VALUE_OF[sort.replace('-', '') as keyof typeof VALUE_OF]
  return chosen.sort((a, b) => {
    const [x, y] = [orderBy(a), orderBy(b)]
    if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0) || a.index - b.index
    return (isFalling ? y - x : x - y) || a.index - b.index
  })
}

/** Rewards in stretches of equal width; where there are few different ones, a bar for each. */
export function histogramOf(head: RolloutsHead, rows: readonly RolloutGroup[]): RolloutGroupList['histogram'] {
  const rewards = rows.flatMap(({ index }) => head.groups[index]?.trajectories.map(({ reward }) => reward) ?? [])
  const values = [...new Set(rewards)].sort((a, b) => a - b)
  const [low] = values
  const high = values.at(-1)
  if (low === undefined || high === undefined) return []
  if (values.length <= BARS) {
    return values.map((value) => ({ from: value, to: value, count: rewards.filter((each) => each === value).length }))
  }
  const bars = Array.from({ length: BARS }, (_, bar) => ({
    from: low + ((high - low) * bar) / BARS,
    to: bar === BARS - 1 ? high : low + ((high - low) * (bar + 1)) / BARS,
    count: 0,
  }))
  for (const reward of rewards) {
    const bar = bars[Math.min(BARS - 1, Math.floor(((reward - low) / (high - low)) * BARS))]
    if (bar !== undefined) bar.count += 1
  }
  return bars
}

function spreadOf(values: readonly number[]): Spread {
  if (values.length === 0) return null
  const min = values.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY)
  const max = values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY)
  return { min, max, mean: values.reduce((sum, value) => sum + value, 0) / values.length }
}

function mostFrequent<T>(values: readonly T[]): T | null {
  const counts = new Map<T, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null
}
