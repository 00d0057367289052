/**
 * The package: a client of a service, the service itself, and the types both speak.
 */
export { type Client, type ClientOptions, createClient } from '#api/client/client.js'
export { ApiError, ConnectionError, RequestTimeoutError } from '#api/client/errors.js'
export type { ChatChunk, ChatRequestBody, ChatResponse } from '#api/wire/chat-completions.js'
export type { Checkpoint, CheckpointFiles } from '#api/wire/checkpoints.js'
export type { FileObject } from '#api/wire/files.js'
export type { List } from '#api/wire/list.js'
export type { Model } from '#api/wire/models.js'
export type { TrainingEvent, TrainingJob } from '#api/wire/training-jobs.js'
export type { TrajectoryGroupBody } from '#api/wire/trajectories.js'
export { AppError, type ErrorCategory } from '#base/errors.js'
export { type BuiltInModel, createService, type Service, type ServiceOptions } from '#service/create-service.js'
