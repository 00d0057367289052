/**
 * The package: a client of a service, the service itself, and the types both speak.
 */

export { AppError, type ErrorCategory } from '#base/errors/errors.js'
export type { ChatChunk, ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
export type { Checkpoint, CheckpointFiles } from '#contract/wire/checkpoints.js'
export type { FileObject } from '#contract/wire/files.js'
export type { List } from '#contract/wire/list.js'
export type { Model } from '#contract/wire/models.js'
export type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
export type { TrajectoryGroupBody } from '#contract/wire/trajectories.js'
export { createService } from '#plugins/service.js'
export { type Client, type ClientOptions, createClient } from '#sdk/client/client.js'
export { ApiError, ConnectionError, RequestTimeoutError } from '#sdk/client/errors.js'
export type { BuiltInModel, Service, ServiceOptions } from '#service/create-service.js'
