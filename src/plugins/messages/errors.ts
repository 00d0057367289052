/**
 * Errors in Anthropic's form: of every path below its own, and as a stream's last event.
 */
import type { ErrorCategory } from '#base/errors/errors.js'
import { RequestValidationError } from '#contract/wire/errors.js'
import type { ErrorForm } from '#service/http/environment.js'
import { shownError } from '#service/http/middleware/errors.js'
import type { MessageErrorBody } from './wire.js'

/** Anthropic's types where they differ. */
const TYPES: Partial<Readonly<Record<ErrorCategory, string>>> = {
  not_found: 'not_found_error',
  too_large: 'request_too_large',
  conflict: 'invalid_request_error',
  not_implemented: 'invalid_request_error',
  internal: 'api_error',
}

export function toMessageError(raw: unknown, requestId: string): MessageErrorBody {
  const { error, type, message } = shownError(raw)
  return {
    type: 'error',
    error: {
      type: TYPES[error.category] ?? type,
      message: error instanceof RequestValidationError ? error.sentence : message,
      param: error.param ?? null,
      code: error.code,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      ...(error.details === undefined ? {} : { details: error.details }),
    },
    request_id: requestId,
  }
}

export const messageErrors: ErrorForm = {
  paths: /^\/v1\/messages\b/,
  requestIdHeader: 'request-id',
  toBody: toMessageError,
}
