/**
 * Rewards as functions that can be put together. A reward looks at a finished trajectory and returns a number.
 *
 * Only differences inside a group matter: training subtracts the group's mean, and by default divides by its deviation.
 */
import type { Trajectory } from '#sdk/rl/trajectory.js'

/** `task` is whatever the rollout was about: an expected answer, a row of a data set. */
export type Reward<T = undefined> = (trajectory: Trajectory, task: T) => number | Promise<number>

/** A reward with its share of the sum. */
export interface WeightedReward<T> {
  readonly weight: number
  readonly reward: Reward<T>
}

/**
 * The weighted sum of several rewards; each one's own value becomes a metric of the trajectory under its name.
 *
 * @example
 * const reward = combineRewards({
 *   right: { weight: 1, reward: exactAnswer() },
 *   short: { weight: 0.1, reward: atMostTokens(20) },
 * })
 */
export function combineRewards<T>(parts: Readonly<Record<string, WeightedReward<T>>>): Reward<T> {
  return async function combinedReward(trajectory, task) {
    let sum = 0
    for (const [name, { weight, reward }] of Object.entries(parts)) {
      const value = await reward(trajectory, task)
      trajectory.metrics[name] = value
      sum += weight * value
    }
    return sum
  }
}

/** 1 when the last answer is the expected text, blanks around it aside, else 0. */
export function exactAnswer(): Reward<string> {
  return ({ answer }, expected) => (answer.trim() === expected.trim() ? 1 : 0)
}

/** 1 when the last answer contains the expected text, else 0. */
export function containsAnswer(): Reward<string> {
  return ({ answer }, expected) => (answer.includes(expected) ? 1 : 0)
}

/** 1 when the last answer matches, else 0. */
export function matching(pattern: RegExp): Reward<unknown> {
  // A global pattern remembers where it stopped; a fresh one does not.
  return ({ answer }) => (new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')).test(answer) ? 1 : 0)
}

/** 1 up to a length, then falling to 0 at twice of it: a soft limit of the answers' tokens together. */
export function atMostTokens(limit: number): Reward<unknown> {
  return ({ choices }) => {
    const tokens = choices.reduce((sum, choice) => sum + (choice.token_ids?.length ?? 0), 0)
    return Math.min(1, Math.max(0, 2 - tokens / limit))
  }
}
