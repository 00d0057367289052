/**
 * Lowers rewards of overlong answers before advantages are computed, and counts the groups that have something to train
 * on.
 */
import { differ } from '#base/differ.js'
import { countBatch } from '#formats/rows/metrics.js'
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { type AdvantageEstimator, softOverlengthPenalty } from '#training/rows/advantages.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'

/** Groups with the rewards that advantages are taken of. */
export interface ShapedGroups {
  readonly groups: readonly TrajectoryGroup[]
  /** Trajectories whose reward was lowered for the length of an answer. */
  readonly penalizedCount: number
}

/**
 * Lowers the rewards of answers that come close to the limit; without one the groups are as they were.
 *
 * An answer's length is its sampled tokens, of several the longest; one without tokens has none. Metrics of rewards stay those
 * of the data.
 */
export function shapeRewards(
  groups: readonly TrajectoryGroup[],
  { softOverlengthLimit: limit, softOverlengthBuffer: buffer }: RlHyperparameters,
): ShapedGroups {
  if (limit === null || buffer === null) return { groups, penalizedCount: 0 }
  let penalizedCount = 0
  const shaped = groups.map((group) => ({
    ...group,
    trajectories: group.trajectories.map((trajectory) => {
      const penalty = softOverlengthPenalty(longestAnswer(trajectory), { limit, buffer })
      if (penalty < 0) penalizedCount += 1
      return { ...trajectory, reward: trajectory.reward + penalty }
    }),
  }))
  return { groups: shaped, penalizedCount }
}

/** Groups with a trajectory that trains: those whose rewards differ, or under `batch` all, where any do. */
export function countTrainableGroups(groups: readonly TrajectoryGroup[], estimator: AdvantageEstimator): number {
  if (estimator !== 'batch') return countBatch(groups).groupsTrainable
  const rewards = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward))
  return differ(rewards) ? groups.filter(({ trajectories }) => trajectories.length > 0).length : 0
}

function longestAnswer({ histories }: Trajectory): number {
  const lengths = histories.flatMap(({ items }) =>
    items.map((item) => (item.kind === 'choice' ? (item.tokenIds?.length ?? item.tokens?.length ?? 0) : 0)),
  )
  return lengths.reduce((longest, length) => Math.max(longest, length), 0)
}
