/**
 * Why a model could not be loaded, as the host's message carries it.
 */
import { type ErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { toFullDiskError } from '#base/errors/errors.js'

/** What a load writes are prepared weights, so a disk without room had none for them. */
export function toLoadError(error: unknown): ErrorMessage {
  const reason = error instanceof Error ? error.message : String(error)
  const full = toFullDiskError(error, 'its prepared weights')
  if (full === null) return toErrorMessage(error, { message: `model could not be loaded: ${reason}` })
  const hint = 'free some space on the disk of the data directory, then send the request again; no restart is needed'
  return { ...toErrorMessage(full), hint }
}
