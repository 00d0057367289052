/**
 * Errors as vLLM answers them, with 400 for a field that is wrong: clients of this endpoint look for no other status.
 */
import type { ErrorForm } from '#service/http/environment.js'
import { shownError, toStreamError } from '#service/http/middleware/errors.js'

export const generateErrors: ErrorForm = {
  paths: /^\/inference\/v1\//,
  requestIdHeader: 'x-request-id',
  toBody: (raw, requestId) => {
    const { hint, details, param } = shownError(raw).error
    const { error } = toStreamError(raw)
    const shown = {
      ...(typeof error === 'string' ? { message: error } : error),
      // whose prompt it is called by other endpoints
      ...(param === 'prompt' ? { param: 'token_ids' } : {}),
      ...(hint === undefined ? {} : { hint }),
      ...details,
    }
    return { error: shown, request_id: requestId }
  },
}
