/**
 * `POST /v1/completions`, also with a trailing slash.
 */
import { readJson } from '../../body.js'
import type { App, AppOptions, RequestContext } from '../../environment.js'
import { sendAnswer } from '../../generated-answer.js'

export function bindCompletions(app: App, options: AppOptions): void {
  async function complete(c: RequestContext): Promise<Response> {
    const request = await readJson(c, 'completion', options.admission)
    return sendAnswer(c, options, {
      model: request.model,
      requestId: request.request_id,
      pingSeconds: request.sse_ping_interval,
      create: (requestId, signal) =>
        options.services.completions.create(c.get('principal'), request, requestId, signal),
    })
  }

  app.post('/v1/completions', complete)
  app.post('/v1/completions/', complete)
}
