/**
 * What a person sees below the rows of a job that is followed on a terminal: how far it is, how fast, how long it will take, and
 * what its kind measures as little charts. The reward is the model's, job after job: within one job it does not change.
 */
import type { TrainingEvent } from '#contract/wire/training-jobs.js'
import { formatClock, formatNumber, millisecondsBetween } from '../terminal/format.js'
import { renderBar, renderSparkline } from './bar.js'

export interface JobView {
  add(event: TrainingEvent): void
  /** @param width columns of the terminal */
  lines(width: number): readonly string[]
}

export interface JobViewOptions {
  readonly nowMs: () => number
  /** Mean rewards of the jobs before, oldest first. */
  readonly rewardsBefore: readonly number[]
  readonly isUnicode: boolean
}

const BAR_WIDTH = 20
/** Names of charts beside the reward, and what of a gradient step they show. */
const CHARTED = [
  ['loss', 'loss', 'policy_loss'],
  ['val loss', 'val/loss'],
  ['margin', 'rewards/margins'],
  ['KL', 'kl_div'],
] as const
const SPARK = { least: 6, most: 30 }

export function createJobView(options: JobViewOptions): JobView {
  const { nowMs, isUnicode } = options
  const createdMs = nowMs()
  let startedAt: string | null = null
  let startMs: number | null = null
  let total: number | null = null
  let count = 0
  let tokensPerSecond: number | null = null
  const rewards = [...options.rewardsBefore]
  const series: Readonly<Record<string, number[]>> = {
    reward: rewards,
    ...Object.fromEntries(CHARTED.map(([name]) => [name, []])),
  }
  let hasReward = false

  function progressLine(): string {
    if (startMs === null) return `  waiting for a worker  ${formatClock(nowMs() - createdMs)}`
    const elapsedMs = nowMs() - startMs
    const parts = [formatClock(elapsedMs)]
    if (tokensPerSecond !== null) parts.push(`${Math.round(tokensPerSecond).toLocaleString('en-US')} tokens/s`)
    if (total === null || total === 0) return `  ${count} steps  ${parts.join('  ')}`
    // the rest costs what the steps so far cost, and the saving at the end little
    const leftMs = count === 0 ? null : (elapsedMs / count) * (total - count)
    if (leftMs !== null) parts.push(leftMs > 0 ? `${formatClock(leftMs)} left` : 'saving')
    return `  ${renderBar(count / total, BAR_WIDTH, isUnicode)}  ${count}/${total}  ${parts.join('  ')}`
  }

  function chartLine(width: number): string | null {
    const shown = Object.entries(series).filter(([, values]) => values.length > 0)
    if (shown.length === 0) return null
    const labels = shown.map(([name, values]) => ({ name, values, last: formatNumber(values.at(-1) ?? Number.NaN) }))
    const taken = labels.reduce((sum, { name, last }) => sum + name.length + last.length + 5, 0)
    const room = Math.floor((width - taken) / labels.length)
    const sparkWidth = Math.min(SPARK.most, Math.max(SPARK.least, room))
    return labels
      .map(({ name, values, last }) => `  ${name} ${renderSparkline(values, sparkWidth, isUnicode)} ${last}`)
      .join(' ')
  }

  return {
    add({ type, data, created_at: at }) {
      if (type === 'training_started') {
        startedAt ??= at
        startMs = nowMs()
        total = typeof data['num_sequences'] === 'number' ? data['num_sequences'] : null
        return
      }
      if (type !== 'gradient_step') return
      startedAt ??= at
      // whoever comes late gets what happened before at once: how long it took stands in the events
      startMs = nowMs() - millisecondsBetween(startedAt, at)
      count += 1
      const { reward, tokens_per_second: speed } = data
      if (typeof speed === 'number') tokensPerSecond = speed
      if (typeof reward === 'number' && !hasReward) {
        hasReward = true
        rewards.push(reward)
      }
      for (const [name, ...keys] of CHARTED) {
        const value = keys.map((key) => data[key]).find((each) => typeof each === 'number')
        if (typeof value === 'number') series[name]?.push(value)
      }
    },
    lines(width) {
      const charts = chartLine(width)
      return charts === null ? [progressLine()] : [progressLine(), charts]
    },
  }
}
