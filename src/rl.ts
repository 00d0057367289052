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
export { openLoss } from '#plugins/literature/library.js'
export { type Client, type ClientOptions, createClient } from '#sdk/client/client.js'
export { ApiError, ConnectionError, RequestTimeoutError } from '#sdk/client/errors.js'
export { gradeWith } from '#sdk/graders/grade-with.js'
export { capture, captureFetch } from '#sdk/rl/capture.js'
export {
  type Curriculum,
  type CurriculumCounts,
  type CurriculumOptions,
  openCurriculum,
} from '#sdk/rl/curriculum.js'
export { type DistillOptions, type DistillStep, distillOnPolicy } from '#sdk/rl/distill.js'
export {
  createToolEnvironment,
  type Environment,
  type Player,
  play,
  type RunnableTool,
  type Turn,
} from '#sdk/rl/environment.js'
export { type GatherOptions, type GatherProgress, type GroupPlan, gather, group, type Rollout } from '#sdk/rl/gather.js'
export { createJudge, type Judge, type JudgeOptions } from '#sdk/rl/judge.js'
export {
  type Connection,
  type Conversation,
  type ModelOptions,
  type PreferencePair,
  TrainableModel,
} from '#sdk/rl/model.js'
export {
  atMostTokens,
  combineRewards,
  containsAnswer,
  exactAnswer,
  matching,
  type Reward,
  type WeightedReward,
} from '#sdk/rl/rewards.js'
export { TrainingSession } from '#sdk/rl/session.js'
export type {
  LossResult,
  OptimSettings,
  SamplingOptions,
  SavedCheckpoint,
  SessionOptions,
  SessionSample,
} from '#sdk/rl/session-options.js'
export type {
  LossConfig,
  LossFunction,
  LossName,
  LossValue,
  SampledRow,
  SessionRow,
  WeightedRow,
} from '#sdk/rl/session-rows.js'
export { type LocalOptions, type LocalService, startLocal } from '#sdk/rl/start-local.js'
export {
  createServedTeacher,
  createTeacher,
  type LessonOptions,
  type Teacher,
  type TeacherOptions,
  writeExamples,
} from '#sdk/rl/teacher.js'
export type { ToolCall } from '#sdk/rl/tool-calls.js'
export {
  type RlTrainOptions,
  type RowsTrainOptions,
  type RowsTrainResult,
  TrainingFailedError,
  type TrainOptions,
  type TrainResult,
} from '#sdk/rl/train.js'
export { type AsyncLoopOptions, type AsyncLoopStep, trainWhileSampling } from '#sdk/rl/train-while-sampling.js'
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
