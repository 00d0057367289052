/**
 * The package: a client of a service, the service itself, and the types both speak.
 */
export { type Client, type ClientOptions, createClient } from '#client/client.js'
export { AppError, type ErrorCategory } from './errors.js'
export { type BuiltInModel, createService, type Service, type ServiceOptions } from './service.js'
export type { ChatChunk, ChatRequestBody, ChatResponse } from './wire/chat-completions.js'
export type { Checkpoint, CheckpointFiles } from './wire/checkpoints.js'
export type { FileObject } from './wire/files.js'
export type { List } from './wire/list.js'
export type { Model } from './wire/models.js'
export type { TrainingEvent, TrainingJob } from './wire/training-jobs.js'
export type { TrajectoryGroupBody } from './wire/trajectories.js'
