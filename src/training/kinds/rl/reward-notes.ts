/**
 * What an RL job's rewards give reason to say.
 */
import { equalRewards } from '#contract/jobs/reward-advice.js'
import { countBatch, rewardMetrics } from '#formats/rows/metrics.js'
import type { TrajectoryGroup } from '#formats/rows/trajectory.js'
import type { JobReport } from '#training/trainer/report.js'

/** Share of groups without variance from which on it is worth a sentence. */
const NOTABLE_SHARE = 0.5

/** Sentences known before the first step. */
export function rewardNotes(groups: readonly TrajectoryGroup[]): string[] {
  const { groupsSubmitted, groupsTrainable } = countBatch(groups)
  if (groupsSubmitted === 0) return ['no trajectory groups were sent: nothing is trained']
  const flat = groupsSubmitted - groupsTrainable
  if (flat < NOTABLE_SHARE * groupsSubmitted) return []
  return [equalRewards({ groups: groupsSubmitted, flat, reward: rewardMetrics(groups).reward ?? 0 })]
}

/** The rewards of the job's data under `reward`. */
export function noteRewards(report: JobReport, groups: readonly TrajectoryGroup[]): void {
  const { reward, reward_std_dev: deviation } = rewardMetrics(groups)
  if (reward !== undefined) report.facts['reward'] = { mean: reward, std_dev: deviation }
}
