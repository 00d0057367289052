/**
 * Steps of a loop as series for charts, thinned so that spikes of its rewards stay.
 */
import { thinSeries } from '#service/operations/models/thin-series.js'
import type { LoopStep } from './loop-service.js'
import type { LoopMetrics } from './wire.js'

/** What of a step can be summed. */
const SUMMED = /^(?:tokens|errors|seconds)\/|^(?:trained_tokens|dropped_answers)$/

/** @param points most of each reward */
export function seriesOf(loopId: string, steps: readonly LoopStep[], points: number): LoopMetrics {
  const axis = steps.map(({ loopStep }) => loopStep)
  const rewards = [steps.map(({ trainReward }) => trainReward), steps.map(({ validReward }) => validReward)]
  const kept = new Set(rewards.flatMap((values) => thinSeries(axis, values, points)))
  // steps without a reward have a place, too, as long as there is room
  const shown = steps.length <= points ? steps : steps.filter((_, i) => kept.has(i))
  const names = new Set<string>()
  const totals: Record<string, number> = {}
  for (const { numbers } of steps) {
    for (const [name, value] of Object.entries(numbers)) {
      names.add(name)
      if (SUMMED.test(name)) totals[name] = (totals[name] ?? 0) + value
    }
  }
  return {
    object: 'loop.metrics',
    loop_id: loopId,
    steps: shown.map(({ loopStep }) => loopStep),
    checkpoint_steps: shown.map(({ checkpointStep }) => checkpointStep),
    job_ids: shown.map(({ jobId }) => jobId),
    series: {
      train_reward: shown.map(({ trainReward }) => trainReward),
      valid_reward: shown.map(({ validReward }) => validReward),
      ...Object.fromEntries([...names].sort().map((name) => [name, shown.map(({ numbers }) => numbers[name] ?? null)])),
    },
    totals,
  }
}
