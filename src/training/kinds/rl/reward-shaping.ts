/**
 * Lowers rewards of overlong answers before advantages are computed.
 */
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { softOverlengthPenalty } from '#training/rows/advantages.js'
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

/** Rewards by group: what says which groups train (`whichTrain`), and what advantages are taken of. */
export const rewardsOf = (groups: readonly TrajectoryGroup[]): number[][] =>
  groups.map(({ trajectories }) => trajectories.map(({ reward }) => reward))

function longestAnswer({ histories }: Trajectory): number {
  const lengths = histories.flatMap(({ items }) =>
    items.map((item) => (item.kind === 'choice' ? (item.tokenIds?.length ?? item.tokens?.length ?? 0) : 0)),
  )
  return lengths.reduce((longest, length) => Math.max(longest, length), 0)
}
