/**
 * `trainyard/rl`: reinforcement learning from TypeScript. A model that learns, rollouts, rewards, and a service in the same
 * program.
 *
 * @example
 * import { gather, group, startLocal, TrainableModel } from 'trainyard/rl'
 */
export { type Client, type ClientOptions, createClient } from '#api/client/client.js'
export { ApiError, ConnectionError, RequestTimeoutError } from '#api/client/errors.js'
export { capture, captureFetch } from '#api/rl/capture.js'
export {
  createToolEnvironment,
  type Environment,
  type Player,
  play,
  type RunnableTool,
  type Turn,
} from '#api/rl/environment.js'
export { type GatherOptions, type GatherProgress, type GroupPlan, gather, group, type Rollout } from '#api/rl/gather.js'
export { createJudge, type Judge, type JudgeOptions } from '#api/rl/judge.js'
export {
  type Connection,
  type Conversation,
  type ModelOptions,
  type PreferencePair,
  TrainableModel,
} from '#api/rl/model.js'
export {
  atMostTokens,
  combineRewards,
  containsAnswer,
  exactAnswer,
  matching,
  type Reward,
  type WeightedReward,
} from '#api/rl/rewards.js'
export { type LocalOptions, type LocalService, startLocal } from '#api/rl/start-local.js'
export type { ToolCall } from '#api/rl/tool-calls.js'
export {
  type RlTrainOptions,
  type RowsTrainOptions,
  type RowsTrainResult,
  TrainingFailedError,
  type TrainOptions,
  type TrainResult,
} from '#api/rl/train.js'
export {
  type Answer,
  type AskOptions,
  type Choice,
  type Message,
  type RolloutException,
  type Tool,
  Trajectory,
  TrajectoryGroup,
} from '#api/rl/trajectory.js'
export type { ChatRequestBody, ChatResponse } from '#api/wire/chat-completions.js'
export type { Checkpoint } from '#api/wire/checkpoints.js'
export type { List } from '#api/wire/list.js'
export type { Model } from '#api/wire/models.js'
export type { TrainingEvent, TrainingJob } from '#api/wire/training-jobs.js'
export { AppError, type ErrorCategory } from '#base/errors.js'
