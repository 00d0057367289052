/**
 * Rewards of turns and of tokens: what a trajectory earned where, which says of each token what could still be earned behind it.
 *
 * A trajectory's reward is all that it earned; choices may say how much of it they did. What was earned before a token is no
 * merit of that token's, so it is taken from its advantage, and what so many rewards are on average in its group is given back:
 *
 *     A_t = A − Σ_{s earned before t} (r_s − r̄) / D
 *
 * A: the trajectory's advantage. r̄: mean of the rewards of turns (of tokens) of its group; of all, where advantages are taken
 * over all. D: what A was divided by. Where nothing was earned on the way every token has A.
 *
 * Source: returns to go, the causal form of the policy gradient (Williams 1992; `token_level_rewards` of REINFORCE++,
 * arXiv:2501.03262), with GRPO's way to compare rewards of steps inside a group (arXiv:2402.03300, section 4.1.3).
 */
import { DataError } from '#base/errors/errors.js'
import { standardDeviation } from '#formats/rows/metrics.js'
import type { ChoiceItem, History, Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import { readsGreedy } from '#formats/rows/which-train.js'
import { ADVANTAGE_EPSILON, type AdvantageOptions, advantagesOf } from './advantages.js'

/** What a history had earned before one of its choices, and in how many rewards. */
export interface Earned {
  readonly sum: number
  readonly count: number
}

/** How rewards of turns count in a group. */
export interface TurnCredit {
  readonly mean: number
  readonly divisor: number
}

interface GroupAdvantages {
  /** Of every trajectory, ragged. */
  readonly advantages_P_G: readonly (readonly number[])[]
  /** Of every group; null where no choice of it says what it earned. */
  readonly credits_P: readonly (TurnCredit | null)[]
}

/**
 * Advantages of all trajectories of a job, and how rewards of their turns count.
 *
 * @throws {DataError} `greedy_answer_missing`, `turn_rewards_unread`
 */
export function advantagesOfGroups(groups: readonly TrajectoryGroup[], options: AdvantageOptions): GroupAdvantages {
  const { advantageEstimator: estimator = 'group', scaleRewards } = options
  const rewards_P_G = groups.map(({ trajectories }) => trajectories.map(({ reward }) => reward))
  const greedy_P = readsGreedy(estimator) ? groups.map(greedyReward) : []
  const advantages_P_G = advantagesOf(rewards_P_G, { ...options, greedy_P })
  const steps_P = groups.map(({ trajectories }) => trajectories.flatMap(rewardsOfTurns))
  const first = steps_P.findIndex(({ length }) => length > 0)
  if (first >= 0 && typeof estimator === 'object') {
    throw new DataError(
      'turn_rewards_unread',
      `trajectory_groups[${first}] has rewards of turns, which the advantage_estimator does not read.`,
      {
        param: `trajectory_groups[${first}]`,
        hint: 'take group, leave_one_out or batch, or leave out the rewards of choices',
      },
    )
  }
  const [all, everyStep] = estimator === 'batch' ? [rewards_P_G.flat(), steps_P.flat()] : [null, null]
  const isScaled = scaleRewards && estimator !== 'leave_one_out'
  return {
    advantages_P_G,
    credits_P: steps_P.map((own, group) => {
      if (own.length === 0) return null
      const steps = everyStep ?? own
      const deviation = isScaled ? standardDeviation(all ?? rewards_P_G[group] ?? []) + ADVANTAGE_EPSILON : 1
      return { mean: steps.reduce((sum, each) => sum + each, 0) / steps.length, divisor: deviation }
    }),
  }
}

/** What was earned before each item of a history; null where no choice of it says. */
export function earnedBefore({ items }: History): readonly Earned[] | null {
  let [sum, count] = [0, 0]
  const earned = items.map((item) => {
    const before = { sum, count }
    for (const reward of item.kind === 'choice' ? rewardsOfChoice(item) : []) {
      sum += reward
      count += 1
    }
    return before
  })
  return count === 0 ? null : earned
}

/**
 * Advantages of the tokens of one choice.
 *
 * @param advantage of its trajectory
 * @param reward of the choice: of the turn, or one for each of its tokens
 */
export function creditTokens(
  into: Float64Array,
  {
    advantage,
    earned,
    reward,
    credit,
  }: {
    readonly advantage: number
    readonly earned: Earned
    readonly reward?: ChoiceItem['reward']
    readonly credit: TurnCredit
  },
): void {
  let { sum, count } = earned
  for (let t = 0; t < into.length; t += 1) {
    into[t] = advantage - (sum - count * credit.mean) / credit.divisor
    if (typeof reward === 'number' || reward === undefined) continue
    sum += reward[t] ?? 0
    count += 1
  }
}

function rewardsOfTurns({ histories }: Trajectory): number[] {
  return histories.flatMap(({ items }) =>
    items.flatMap((item) => (item.kind === 'choice' ? rewardsOfChoice(item) : [])),
  )
}

function rewardsOfChoice({ reward }: ChoiceItem): readonly number[] {
  if (reward === undefined) return []
  return typeof reward === 'number' ? [reward] : Array.from(reward)
}

/** Reward of the first trajectory whose answers were all drawn at temperature 0. */
function greedyReward({ trajectories }: TrajectoryGroup, group: number): number {
  const greedy = trajectories.find(({ histories }) => {
    const choices = histories.flatMap(({ items }) => items.filter((item) => item.kind === 'choice'))
    return choices.length > 0 && choices.every(({ sampling }) => sampling?.temperature === 0)
  })
  if (greedy !== undefined || trajectories.length === 0) return greedy?.reward ?? 0
  throw new DataError(
    'greedy_answer_missing',
    `trajectory_groups[${group}] has no answer drawn at temperature 0, with which the advantage_estimator compares.`,
    {
      param: `trajectory_groups[${group}]`,
      hint: 'sample one more answer of each prompt at temperature 0: env train --advantage remax does',
    },
  )
}
