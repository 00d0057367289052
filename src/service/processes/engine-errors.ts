/**
 * What a request is told when its engine host could not serve it.
 */
import { AppError } from '#base/errors/errors.js'
import type { FailedEvent } from '#inference/host/protocol.js'

/** When a model that could not be loaded is tried again, at the latest: what its error promises. */
export const LOAD_RETRY_MS = 5000

/** Whatever the reason, the request that waited for the model is not at fault. */
export function loadFailed(baseModel: string, event: FailedEvent): AppError {
  return new AppError(
    'unavailable',
    event.error.code === 'disk_full' ? 'disk_full' : 'model_load_failed',
    `base model "${baseModel}" cannot be loaded: ${event.error.message}`,
    {
      hint: event.error.hint ?? 'look at the log of the server',
      details: { retry_after_seconds: LOAD_RETRY_MS / 1000 },
    },
  )
}

/** @param reason what happened, as the end of a sentence about the engine */
export function restarting(baseModel: string, reason: string): AppError {
  return new AppError(
    'unavailable',
    'engine_restarting',
    `the engine of base model "${baseModel}" ${reason} and restarts`,
    {
      hint: 'send the request again',
      details: { retry_after_seconds: 1 },
    },
  )
}

export function keepsDying(
  baseModel: string,
  deaths: number,
  { reason, waitMs }: { readonly reason: string; readonly waitMs: number },
): AppError {
  const seconds = Math.ceil(waitMs / 1000)
  return new AppError(
    'unavailable',
    'engine_restarting',
    `the engine of base model "${baseModel}" stopped ${deaths} times in a row, the last time it ${reason}; it starts again in ${seconds} s at the earliest`,
    { hint: 'look at the log of the server', details: { retry_after_seconds: seconds } },
  )
}

/** @param most requests that may run or wait */
export function queueFull(most: number): AppError {
  return new AppError('rate_limited', 'queue_full', `the engine holds ${most} requests already`, {
    hint: 'send fewer requests at once',
  })
}

export function unresponsive(baseModel: string, timeoutMs: number): AppError {
  return new AppError(
    'unavailable',
    'engine_unresponsive',
    `the engine of base model "${baseModel}" did not answer within ${timeoutMs} ms`,
  )
}
