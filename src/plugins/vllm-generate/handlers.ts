/**
 * Tokens in, tokens out, whole or streamed.
 */
import { sendAnswer } from '#service/http/generated-answer.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { generateEndpoints } from './endpoints.js'
import { createGenerateService } from './generate.js'

export function generateHandlers({ context, app }: PluginService): PluginHandlers<typeof generateEndpoints> {
  const service = createGenerateService(context)
  return {
    'POST /inference/v1/generate': async ({ principal, body, c }) => {
      const request = await body()
      return sendAnswer(c, app, {
        model: request.model,
        requestId: request.request_id,
        pingSeconds: request.sse_ping_interval,
        create: (requestId, signal) => service.create(principal, request, requestId, signal),
      })
    },
  }
}
