/**
 * Sorts errors that occur while a session's request is finished or its state is stored: those that pass, so that the
 * worker reports again; those that mean that another worker holds the session; and what the client is told.
 */
import { AppError, ConflictError, fullMessage } from '#base/errors/errors.js'
import { toStorageError } from '#service/storage/database.js'

/** Whether an error says that another worker holds the session. */
export function isTaken(error: unknown): boolean {
  return error instanceof ConflictError && error.code === 'stale_attempt'
}

/**
 * A full disk, a database that another program holds: the worker waits and says the same again. Not its own any more: it
 * hears so.
 */
export function isPassing(error: unknown): boolean {
  if (isTaken(error)) return true
  const known = error instanceof AppError ? error : toStorageError(error)
  return known?.category === 'unavailable'
}

/** Reason as the client is told it. */
export function reasonOf(error: unknown): string {
  return error instanceof AppError ? fullMessage(error) : 'an internal error, see the log of the server'
}
