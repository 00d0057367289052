/**
 * Rewards as options of plugins change them, before advantages are computed. A plugin is shown copies, and what it answers is
 * checked: the same groups, finite numbers, and the same once more, for a job that goes on asks again.
 */
import { AppError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { ShownTrajectory } from '#contract/jobs/plugin-options.js'
import type { HistoryItem, Trajectory, TrajectoryGroup } from '#formats/rows/trajectory.js'
import type { RewardShaper } from '../start.js'

/** Groups with the rewards that all of them leave, one after the other. @throws {AppError} `plugin_failed` */
export function rewardsByPlugins(
  groups: readonly TrajectoryGroup[],
  shapers: readonly RewardShaper[],
): readonly TrajectoryGroup[] {
  return shapers.reduce((shaped, shaper) => {
    const rewards_P_G = ask(shaped, shaper)
    return shaped.map((group, g) => ({
      ...group,
      trajectories: group.trajectories.map((trajectory, t) => ({ ...trajectory, reward: rewards_P_G[g]?.[t] ?? 0 })),
    }))
  }, groups)
}

/** Trajectories whose reward is another one now. */
export function countChanged(before: readonly TrajectoryGroup[], after: readonly TrajectoryGroup[]): number {
  const pairs = before.flatMap(({ trajectories }, g) =>
    trajectories.map(({ reward }, t) => reward !== after[g]?.trajectories[t]?.reward),
  )
  return pairs.filter((isOther) => isOther).length
}

function ask(
  groups: readonly TrajectoryGroup[],
  { plugin, options, shaping }: RewardShaper,
): readonly (readonly number[])[] {
  const fail = (what: string, cause?: unknown): never => {
    throw new AppError('invalid_request', 'plugin_failed', `plugin "${plugin}": ${what}`, {
      hint: 'its function "rewards" must answer a list of finite numbers for each group, as long as the group',
      cause,
    })
  }
  const once = (): readonly (readonly number[])[] => {
    try {
      return shaping.shape(Object.freeze(groups.map(show)), Object.freeze({ ...options }))
    } catch (error) {
      return fail(`its rewards cannot be computed: ${error instanceof Error ? error.message : String(error)}`, error)
    }
  }
  const rewards_P_G = once()
  if (!Array.isArray(rewards_P_G) || rewards_P_G.length !== groups.length) {
    const given = Array.isArray(rewards_P_G) ? `${rewards_P_G.length}` : `a ${typeof rewards_P_G}`
    fail(`it was given ${groups.length} groups and answered rewards of ${given}`)
  }
  groups.forEach(({ trajectories: { length } }, g) => {
    const rewards_G: unknown = rewards_P_G[g]
    const isWhole = Array.isArray(rewards_G) && rewards_G.length === length && rewards_G.every(Number.isFinite)
    if (!isWhole) {
      fail(
        `expected ${length} finite numbers for trajectory_groups[${g}], got ${JSON.stringify(rewards_G)?.slice(0, 100)}`,
      )
    }
  })
  if (JSON.stringify(once()) !== JSON.stringify(rewards_P_G)) {
    fail('the same groups got other rewards the second time: chance, a clock or a counter has no place in them')
  }
  return rewards_P_G
}

const show = ({ trajectories }: TrajectoryGroup): readonly ShownTrajectory[] =>
  Object.freeze(trajectories.map(showTrajectory))

function showTrajectory({ reward, metrics, histories: [main] }: Trajectory): ShownTrajectory {
  const messages = (main?.items ?? []).map((item) =>
    Object.freeze({ role: String(item.message['role']), text: textOf(item.message), tokens: tokensOf(item) }),
  )
  return Object.freeze({ reward, metrics: Object.freeze({ ...metrics }), messages: Object.freeze(messages) })
}

function textOf({ content }: JsonObject): string {
  return typeof content === 'string' ? content : content == null ? '' : JSON.stringify(content)
}

const tokensOf = (item: HistoryItem): number =>
  item.kind === 'choice' ? (item.tokenIds?.length ?? item.tokens?.length ?? 0) : 0
