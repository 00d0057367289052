/**
 * Errors as the host's messages carry them, to another process or thread and back.
 */
import { AppError, toFullDiskError } from '#base/errors.js'
import type { FailedEvent } from './protocol.js'

/** @param unexpected what to say of an error that is not meant to be read */
export function toHostError(error: unknown, unexpected: string): FailedEvent['error'] {
  if (error instanceof AppError) {
    const { category, code, message, param = null, hint = null, details = null } = error
    return { category, code, message, param, hint, details }
  }
  return { category: 'internal', code: 'internal_error', message: unexpected, param: null, hint: null }
}

/** Why a model could not be loaded. What a load writes are prepared weights, so a disk without room had none for them. */
export function toLoadError(error: unknown): FailedEvent['error'] {
  const reason = error instanceof Error ? error.message : String(error)
  const full = toFullDiskError(error, 'its prepared weights')
  if (full === null) return toHostError(error, `model could not be loaded: ${reason}`)
  const hint = 'free some space on the disk of the data directory, then send the request again; no restart is needed'
  return { ...toHostError(full, reason), hint }
}

export function fromHostError({ category, code, message, param, hint, details }: FailedEvent['error']): AppError {
  return new AppError(category, code, message, {
    param: param ?? undefined,
    hint: hint ?? undefined,
    details: details ?? undefined,
  })
}
