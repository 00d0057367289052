/**
 * How a rollout ended.
 */
import type { FinishRolloutRequest } from './wire.js'

export interface RolloutResult extends Pick<FinishRolloutRequest, 'rewards' | 'metrics'> {
  /** Sum of score times weight; null: it failed. */
  readonly reward: number | null
  readonly error: { readonly type: string; readonly message: string } | null
  /** Of the request that ended it: sent again it means the same. */
  readonly digest: string | null
}

/** @returns null where it is no number that can be trained on */
export function rewardOf(rewards: FinishRolloutRequest['rewards']): number | null {
  const reward = Object.values(rewards).reduce((sum, { score, weight }) => sum + score * weight, 0)
  return Math.abs(reward) <= 1e30 ? reward : null
}
