/**
 * `trainyard/rl`: reinforcement learning from TypeScript. A model that learns, rollouts, rewards, and a service in the same
 * program.
 *
 * @example
 * import { gather, group, startLocal, TrainableModel } from 'trainyard/rl'
 */

export { AppError, type ErrorCategory } from '#base/errors/errors.js'
export type { ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
export type { Checkpoint } from '#contract/wire/checkpoints.js'
export type { List } from '#contract/wire/list.js'
export type { Model } from '#contract/wire/models.js'
export type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
export {
  type AskedModel,
  askedModel,
  createEpisodes,
  type EnvironmentDescription,
  type EnvironmentOptions,
  type EnvironmentSource,
  type EnvironmentTask,
  type EpisodeSetup,
  type Episodes,
  openEnvironment,
  openTasks,
  type TaskFeed,
} from '#plugins/environments/library.js'
export { gradeWith } from '#plugins/graders/library.js'
export { openLoss } from '#plugins/literature/library.js'
export { capture, captureFetch } from '#plugins/rl-library/capture.js'
export {
  type Curriculum,
  type CurriculumCounts,
  type CurriculumOptions,
  openCurriculum,
} from '#plugins/rl-library/curriculum.js'
export { type DistillOptions, type DistillStep, distillOnPolicy } from '#plugins/rl-library/distill.js'
export {
  createToolEnvironment,
  type Environment,
  type Player,
  play,
  type RunnableTool,
  type Turn,
} from '#plugins/rl-library/environment.js'
export {
  type GatherOptions,
  type GatherProgress,
  type GroupPlan,
  gather,
  group,
  type Rollout,
} from '#plugins/rl-library/gather.js'
export { createJudge, type Judge, type JudgeOptions } from '#plugins/rl-library/judge.js'
export {
  type Connection,
  type Conversation,
  type ModelOptions,
  type PreferencePair,
  TrainableModel,
} from '#plugins/rl-library/model.js'
export {
  atMostTokens,
  combineRewards,
  containsAnswer,
  exactAnswer,
  matching,
  type Reward,
  type WeightedReward,
} from '#plugins/rl-library/rewards.js'
export { TrainingSession } from '#plugins/rl-library/session.js'
export type {
  LossResult,
  OptimSettings,
  SamplingOptions,
  SavedCheckpoint,
  SessionOptions,
  SessionSample,
} from '#plugins/rl-library/session-options.js'
export type {
  LossConfig,
  LossFunction,
  LossName,
  LossValue,
  SampledRow,
  SessionRow,
  WeightedRow,
} from '#plugins/rl-library/session-rows.js'
export { type LocalOptions, type LocalService, startLocal } from '#plugins/rl-library/start-local.js'
export {
  createServedTeacher,
  createTeacher,
  type LessonOptions,
  type Teacher,
  type TeacherOptions,
  writeExamples,
} from '#plugins/rl-library/teacher.js'
export {
  type RlTrainOptions,
  type RowsTrainOptions,
  type RowsTrainResult,
  TrainingFailedError,
  type TrainOptions,
  type TrainResult,
} from '#plugins/rl-library/train.js'
export {
  type AsyncLoopOptions,
  type AsyncLoopStep,
  trainWhileSampling,
} from '#plugins/rl-library/train-while-sampling.js'
export { type Client, type ClientOptions, createClient } from '#sdk/client/client.js'
export { ApiError, ConnectionError, RequestTimeoutError } from '#sdk/client/errors.js'
export type { ToolCall } from '#sdk/rl/tool-calls.js'
export {
  type Answer,
  type AskOptions,
  type Choice,
  type Message,
  type RolloutException,
  type Tool,
  Trajectory,
  TrajectoryGroup,
} from '#sdk/rl/trajectory.js'
