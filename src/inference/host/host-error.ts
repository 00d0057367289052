/**
 * Errors as the host's messages carry them, to another process or thread and back.
 */
import { AppError } from '#base/errors.js'
import type { FailedEvent } from './protocol.js'

/** @param unexpected what to say of an error that is not meant to be read */
export function toHostError(error: unknown, unexpected: string): FailedEvent['error'] {
  if (error instanceof AppError) {
    const { category, code, message, param = null, hint = null, details = null } = error
    return { category, code, message, param, hint, details }
  }
  return { category: 'internal', code: 'internal_error', message: unexpected, param: null, hint: null }
}

export function fromHostError({ category, code, message, param, hint, details }: FailedEvent['error']): AppError {
  return new AppError(category, code, message, {
    param: param ?? undefined,
    hint: hint ?? undefined,
    details: details ?? undefined,
  })
}
