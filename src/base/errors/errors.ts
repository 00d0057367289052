/**
 * Every error a user can meet: whose fault it is (`category`), a stable `code`, and what to do next (`hint`).
 *
 * Only `service/http/middleware/errors.ts` maps a category to HTTP and only `commands/main.ts` maps it to an exit code.
 * A message is one sentence: it names the thing, says what was expected and what was given. Advice goes to `hint`.
 */
import type { JsonValue } from '#base/json/json-value.js'

export type ErrorCategory =
  | 'invalid_request'
  | 'authentication'
  | 'permission'
  | 'not_found'
  | 'conflict'
  | 'too_large'
  | 'rate_limited'
  | 'unavailable'
  | 'not_implemented'
  | 'internal'
  | 'cancelled'

export interface ErrorOptions {
  /** What to do next: a command or a setting. */
  readonly hint?: string | undefined
  /** JSON path of the offending input, for example `trajectory_groups[2].trajectories[0].reward`. */
  readonly param?: string | undefined
  /** Extra facts that are safe to show. */
  readonly details?: Readonly<Record<string, JsonValue>> | undefined
  /** The raw error: logged, never sent. */
  readonly cause?: unknown
}

/** Base of all errors that are meant to be read by a person. */
export class AppError extends Error {
  readonly category: ErrorCategory
  /** Stable, snake_case, documented, tested. */
  readonly code: string
  readonly hint: string | undefined
  readonly param: string | undefined
  readonly details: Readonly<Record<string, JsonValue>> | undefined

  constructor(category: ErrorCategory, code: string, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.category = category
    this.code = code
    this.hint = options.hint
    this.param = options.param
    this.details = options.details
  }
}

/** What happened and what to do next in one text, for places that have only one. */
export function fullMessage({ message, hint }: AppError): string {
  return hint === undefined ? message : `${message.replace(/\.$/, '')}; ${hint}`
}

/** A request or a file given by the user is wrong. */
export class InvalidRequestError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('invalid_request', code, message, options)
  }
}

/** The named thing does not exist. */
export class NotFoundError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('not_found', code, message, options)
  }
}

/** The thing exists already, is in use, or is finished. */
export class ConflictError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('conflict', code, message, options)
  }
}

/** A tensor has the wrong dtype, shape or size. */
export class TensorError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** A graph is built wrongly: names the operator and the shapes of its inputs. */
export class GraphError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** No gradient rule exists for an operator on the path from the loss to a parameter. */
export class MissingGradientError extends GraphError {
  constructor(message: string, options: ErrorOptions = {}) {
    super('missing_gradient', message, options)
  }
}

/** ONNX Runtime refused a model or failed while running it. */
export class RuntimeError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** Longest message about a file, characters. */
const MAX_MESSAGE = 2000

/** A weight file is malformed, truncated or does not match its configuration. */
export class WeightsError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    // names in a hostile file may be megabytes long
    const shown = message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message
    super('invalid_request', code, shown, options)
  }
}

/** A checkpoint is missing a file or fails its digest. */
export class CheckpointError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** A file that comes with this package is missing or was altered. */
export class InstallationError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** A tokenizer file or a chat template cannot be used. */
export class TokenizerError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('invalid_request', code, message, options)
  }
}

/** Training data is wrong; the message names file, line or JSON path. */
export class DataError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('invalid_request', code, message, options)
  }
}

/** Training failed; the message names the step. */
export class TrainingError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** The database or the data directory failed. */
export class StorageError extends AppError {
  constructor(code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
  }
}

/** What is asked of a server that ends, or what its end left no time for. */
export function shuttingDown(): AppError {
  return new AppError('unavailable', 'shutting_down', 'the server is shutting down', {
    hint: 'send the request again once it is back',
    details: { retry_after_seconds: 5 },
  })
}

/** The error for a disk, or a quota, without room for `what`; null for anything else. */
export function toFullDiskError(error: unknown, what: string): AppError | null {
  if (error instanceof AppError || !isFullDisk(error)) return null
  return new AppError('unavailable', 'disk_full', `${what} cannot be written: the disk is full`, {
    hint: 'free some space and try again',
    cause: error,
  })
}

/** Whether an error, or what is behind it, is a write that found no room. */
export function isFullDisk(error: unknown): boolean {
  return /^(ENOSPC|EDQUOT|SQLITE_FULL)$/.test(String(systemCodeOf(error)))
}

/** The error for a process, or a machine, that may open no more files and connections; null for anything else. */
export function toOpenFilesError(error: unknown): AppError | null {
  const code = error instanceof AppError ? null : systemCodeOf(error)
  if (code !== 'EMFILE' && code !== 'ENFILE') return null
  const whose = code === 'EMFILE' ? 'this process' : 'the system'
  return new AppError(
    'unavailable',
    'too_many_open_files',
    `${whose} has as many files and connections open as it may`,
    {
      hint: 'try again; if it comes back, raise the limit of open files: ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of Docker',
      cause: error,
    },
  )
}

/** The system's code of an error, or of what is behind it, for example `ENOSPC`. */
export function systemCodeOf(error: unknown): string | null {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (!(at instanceof AppError) && 'code' in at && typeof at.code === 'string') return at.code
  }
  return null
}
