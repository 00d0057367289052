/**
 * Errors on their way between processes and threads: the one form they travel in, and back.
 *
 * What is meant to be read keeps category, code and words. Anything else becomes an internal error under a code of the sender's;
 * its own text and the system's code go along as its cause, for the log and for who knows what `ENOSPC` means. Knows no channel.
 */
import { AppError, type ErrorCategory, systemCodeOf } from '#base/errors/errors.js'
import type { JsonObject } from '#base/json/json-value.js'

/** An error as one process or thread tells it to another. */
export interface ErrorMessage {
  readonly category: ErrorCategory
  readonly code: string
  readonly message: string
  readonly param: string | null
  readonly hint: string | null
  /** Extra facts that are safe to show, for example `n_ctx`. */
  readonly details?: JsonObject | null
  /** What is behind it: never sent to a client. */
  readonly cause?: CauseMessage | null
}

interface CauseMessage {
  /** With its stack. */
  readonly text: string
  /** Of the system, for example `ENOSPC`. */
  readonly systemCode: string | null
}

/** What is said of an error that is not meant to be read. */
export interface Unexpected {
  /** Default `internal_error`. */
  readonly code?: string
  /** Default: the error's own words. */
  readonly message?: string
}

export function toErrorMessage(error: unknown, unexpected: Unexpected = {}): ErrorMessage {
  if (error instanceof AppError) {
    const { category, code, message, param = null, hint = null, details = null, cause } = error
    return { category, code, message, param, hint, details, cause: cause === undefined ? null : toCause(cause) }
  }
  return {
    category: 'internal',
    code: unexpected.code ?? 'internal_error',
    message: unexpected.message ?? (error instanceof Error ? error.message : String(error)),
    param: null,
    hint: null,
    details: null,
    cause: toCause(error),
  }
}

export function fromErrorMessage({ category, code, message, param, hint, details, cause }: ErrorMessage): AppError {
  return new AppError(category, code, message, {
    param: param ?? undefined,
    hint: hint ?? undefined,
    details: details ?? undefined,
    cause: cause == null ? undefined : fromCause(cause),
  })
}

/** Enough of a stack to find the place. */
const MAX_CAUSE = 4000

function toCause(error: unknown): CauseMessage {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { text: text.slice(0, MAX_CAUSE), systemCode: systemCodeOf(error) }
}

function fromCause({ text, systemCode }: CauseMessage): Error {
  const error = new Error(text.split('\n', 1)[0])
  error.stack = text
  return systemCode === null ? error : Object.assign(error, { code: systemCode })
}
