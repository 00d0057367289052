/**
 * Changes rewards before advantages are computed: as plugins say, then lower ones for overlong answers.
 */
import type { Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { softOverlengthPenalty } from '#training/rows/advantages.js'
import type { RewardShaper } from '../start.js'
import { countChanged, rewardsByPlugins } from './plugin-rewards.js'
import type { RlHyperparameters } from './rl-hyperparameters.js'

/** Groups with the rewards that advantages are taken of. */
export interface ShapedGroups {
  readonly groups: readonly TrajectoryGroup[]
  /** Trajectories whose reward was lowered for the length of an answer. */
  readonly penalizedCount: number
  /** The same that plugins changed. */
  readonly changedCount: number
}

/**
 * Takes the rewards that plugins leave, and lowers those of answers that come close to the limit; without either the groups are
 * as they were.
 *
 * An answer's length is its sampled tokens, of several the longest; one without tokens has none. Metrics of rewards stay those
 * of the data.
 */
export function shapeRewards(
  given: readonly TrajectoryGroup[],
  { softOverlengthLimit: limit, softOverlengthBuffer: buffer }: RlHyperparameters,
  shapers: readonly RewardShaper[] = [],
): ShapedGroups {
  const groups = rewardsByPlugins(given, shapers)
  const changedCount = countChanged(given, groups)
  if (limit === null || buffer === null) return { groups, penalizedCount: 0, changedCount }
  let penalizedCount = 0
  const shaped = groups.map((group) => ({
    ...group,
    trajectories: group.trajectories.map((trajectory) => {
      const penalty = softOverlengthPenalty(longestAnswer(trajectory), { limit, buffer })
      if (penalty < 0) penalizedCount += 1
      return { ...trajectory, reward: trajectory.reward + penalty }
    }),
  }))
  return { groups: shaped, penalizedCount, changedCount }
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
