/**
 * Chat in OpenAI's format, and which models answer.
 */
import type { AppOptions } from '../environment.js'
import { sendAnswer } from '../generated-answer.js'
import { handlers } from '../handlers.js'

export function chatHandlers(options: AppOptions) {
  const { chat } = options.services
  return handlers({
    'POST /v1/chat/completions': async ({ principal, body, c }) => {
      const request = await body()
      return sendAnswer(c, options, {
        model: request.model,
        requestId: request.request_id,
        pingSeconds: request.sse_ping_interval,
        create: (requestId, signal) => chat.create(principal, request, requestId, signal),
      })
    },
    'GET /v1/models': async ({ principal, query, c }) =>
      c.body(await chat.listModels(principal, query()), 200, { 'content-type': 'application/json' }),
    'GET /v1/models/{+id}': ({ principal, params }) => chat.describeModel(principal, params.id),
  })
}
