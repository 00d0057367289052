/**
 * `POST /v1/chat/completions` (also with a trailing slash, and as `/invocations` for SageMaker's runtime) and `GET /v1/models`.
 */
import { readJson } from '../body.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { sendAnswer } from '../generated-answer.js'

export function bindChatCompletions(app: App, options: AppOptions): void {
  const { chat } = options.services

  async function complete(c: RequestContext): Promise<Response> {
    const request = await readJson(c, 'chat')
    return sendAnswer(c, options, {
      model: request.model,
      requestId: request.request_id,
      pingSeconds: request.sse_ping_interval,
      create: (requestId, signal) => chat.create(c.get('principal'), request, requestId, signal),
    })
  }

  app.post('/v1/chat/completions', complete)
  app.post('/v1/chat/completions/', complete)
  app.post('/invocations', complete)
  app.get('/v1/models', async (c) => c.json({ object: 'list', data: [...(await chat.listModels(c.get('principal')))] }))
  app.get('/v1/models/:id{.+}', async (c) => c.json(await chat.describeModel(c.get('principal'), c.req.param('id'))))
}
