/**
 * Errors of the command line itself, and how any error becomes its three printed parts: what, a suggestion, a hint.
 */

import { AppError, type ErrorOptions, toFullDiskError, toOpenFilesError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import { ApiError, ConnectionError, RequestTimeoutError } from '#sdk/client/errors.js'
import { type ExitName, exitCodeOf, exitCodes } from './exit-codes.js'

/** A bad flag or argument, or an input file that cannot be used: exit 2. */
export class UsageError extends AppError {
  /** Nearest correct spelling, printed as "Did you mean …?". */
  readonly suggestion: string | undefined

  constructor(
    code: string,
    message: string,
    options: ErrorOptions & { readonly suggestion?: string | undefined } = {},
  ) {
    super('invalid_request', code, message, options)
    this.suggestion = options.suggestion
  }
}

/** Ends the run with an exit code that no category has: a job failed, or waiting was given up. */
export class OutcomeError extends AppError {
  readonly exit: ExitName

  constructor(exit: 'job_failed' | 'gave_up', code: string, message: string, options: ErrorOptions = {}) {
    super('internal', code, message, options)
    this.exit = exit
  }
}

/** Ctrl-C or SIGTERM; `lines` say what goes on without us. */
export class InterruptedError extends AppError {
  readonly exit: 'interrupted' | 'terminated'
  readonly lines: readonly string[]

  constructor(signalName: 'SIGINT' | 'SIGTERM', lines: readonly string[] = []) {
    super('cancelled', 'interrupted', signalName === 'SIGINT' ? 'interrupted' : 'terminated')
    this.exit = signalName === 'SIGINT' ? 'interrupted' : 'terminated'
    this.lines = lines
  }

  /** The same interruption with what to do next. */
  withLines(lines: readonly string[]): InterruptedError {
    return new InterruptedError(this.exit === 'interrupted' ? 'SIGINT' : 'SIGTERM', lines)
  }
}

/** What is printed of an error, and the code the process ends with. */
export interface ErrorReport {
  readonly message: string
  readonly suggestion: string | undefined
  readonly hint: string | undefined
  readonly exitCode: number
  /** Printed instead of an error, for an interruption: what goes on without us. */
  readonly lines?: readonly string[]
  /** The same for `--json`, one line on stderr. */
  readonly json: { readonly error: Readonly<Record<string, JsonValue>> }
}

/** Describes any thrown value; an unexpected one says that it is a bug. */
export function reportError(thrown: unknown): ErrorReport {
  const error = toOpenFilesError(thrown) ?? toFullDiskError(thrown, fileOf(thrown)) ?? thrown
  if (!(error instanceof AppError)) return reportBug(error)
  const suggestion = 'suggestion' in error && typeof error.suggestion === 'string' ? error.suggestion : undefined
  const hint = isWithoutKey(error) ? WITHOUT_KEY_HINT : (error.hint ?? hintFor(error))
  const requestId = error instanceof ApiError ? error.requestId : null
  const exitCode =
    error instanceof OutcomeError || error instanceof InterruptedError
      ? exitCodes[error.exit].code
      : exitCodeOf(error.category)
  const status = error instanceof ApiError ? error.status : null
  const suffix = status !== null && status >= 500 && requestId !== null ? ` (request ${requestId})` : ''
  return {
    message: `${error.message}${suffix}`,
    suggestion,
    hint,
    exitCode,
    ...(error instanceof InterruptedError ? { lines: error.lines } : {}),
    json: {
      error: {
        type: error.category,
        code: error.code,
        message: error.message,
        param: error.param ?? null,
        hint: hint ?? null,
        status,
        request_id: requestId,
      },
    },
  }
}

/** What a failed system call was about; a write knows only its descriptor. */
function fileOf(error: unknown): string {
  return error instanceof Error && 'path' in error && typeof error.path === 'string' ? `"${error.path}"` : 'a file'
}

function reportBug(error: unknown): ErrorReport {
  const text = error instanceof Error ? error.message : String(error)
  const message = `unexpected failure, this is a bug: ${text}`
  const hint = 'run again with -v to see where it happened'
  return {
    message,
    suggestion: undefined,
    hint,
    exitCode: exitCodes.failed.code,
    json: {
      error: { type: 'internal', code: 'bug', message, param: null, hint, status: null, request_id: null },
    },
  }
}

/** The service's own hint is for who writes requests; a command line has other ways to a key. */
const WITHOUT_KEY_HINT =
  'no API key was found: set TRAINYARD_API_KEY or give --api-key-file <path>; that of a server on this machine is found by itself, ' +
  'by the record its account keeps in $XDG_STATE_HOME/trainyard'

function isWithoutKey(error: AppError): boolean {
  return error instanceof ApiError && error.status === 401 && error.code === 'missing_api_key'
}

function hintFor(error: AppError): string | undefined {
  if (error instanceof ConnectionError) {
    return 'start the service with `trainyard serve`, or set --server / TRAINYARD_URL'
  }
  if (error instanceof RequestTimeoutError) return 'raise --timeout, or look at the log of the service'
  // routes in vLLM's form say no more than "Unauthorized"
  if (error.category === 'authentication') {
    return 'trainyard whoami shows which key is used; TRAINYARD_API_KEY or --api-key-file <path> names another'
  }
  if (error.code === 'model_not_found') return 'trainyard models list'
  if (error.code === 'training_job_not_found') return 'trainyard jobs list'
  if (error.category === 'unavailable' || error.category === 'rate_limited') return 'try again in a moment'
  return undefined
}
