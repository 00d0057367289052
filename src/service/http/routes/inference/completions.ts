/**
 * Completions in OpenAI's older format.
 */
import type { AppOptions } from '../../environment.js'
import { sendAnswer } from '../../generated-answer.js'
import { handlers } from '../../handlers.js'

export function completionHandlers(options: AppOptions) {
  return handlers({
    'POST /v1/completions': async ({ principal, body, c }) => {
      const request = await body()
      return sendAnswer(c, options, {
        model: request.model,
        requestId: request.request_id,
        pingSeconds: request.sse_ping_interval,
        create: (requestId, signal) => options.services.completions.create(principal, request, requestId, signal),
      })
    },
  })
}
