/**
 * Words and bounds of what a job trained on, apart from its schemas: commands and the page need no schema library for them.
 */

/** Why a trajectory taught nothing. */
export const LEFT_OUT_REASONS = [
  /** Alone in its group: there is nothing to compare its reward with. */
  'single_trajectory',
  'equal_rewards',
  /** Its reward is what rewards are compared with. */
  'reward_is_mean',
  /** Longer than the row, dropped whole. */
  'overlength',
  'no_logprobs',
  /** Cut off, under `mask_truncated`. */
  'masked_truncated',
  /** Sampled at temperature 0: its distribution has one answer, whose probability nothing changes. */
  'greedy',
  'unknown_token_text',
  'empty_completion',
  'unsupported_exchange',
  'left_out_message',
  /** The chat template refuses its messages. */
  'unrenderable',
  'no_trainable_turn',
] as const
export type LeftOutReason = (typeof LEFT_OUT_REASONS)[number]

/** How groups may be ordered; `-` begins with the highest. */
export const GROUP_ORDERS = [
  'index',
  'mean_reward',
  '-mean_reward',
  'reward_std_dev',
  '-reward_std_dev',
  'entropy',
  '-entropy',
  '-tokens',
] as const

/** Most tokens of one answer. */
export const MAX_ROLLOUT_TOKENS = 8192
export const DEFAULT_ROLLOUT_TOKENS = 4096
