/**
 * Request headers that make a create safe to repeat: `Idempotency-Key`, and the retry count of OpenAI's clients.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { RequestContext } from './environment.js'

/** `Idempotency-Key`, or null. @throws {InvalidRequestError} `invalid_idempotency_key` beyond 255 characters */
export function idempotencyKey(c: RequestContext): string | null {
  const key = c.req.header('idempotency-key')
  if (key === undefined || key === '') return null
  if (key.length > 255) {
    throw new InvalidRequestError('invalid_idempotency_key', 'Idempotency-Key must have at most 255 characters')
  }
  return key
}

/** True when OpenAI's or Stainless' client says that it sends this request again. */
function isRetry(c: RequestContext): boolean {
  return Number(c.req.header('x-stainless-retry-count') ?? 0) > 0
}

/** Both, as creates take them. */
export function createHeaders(c: RequestContext) {
  return { idempotencyKey: idempotencyKey(c), isRetry: isRetry(c) }
}
