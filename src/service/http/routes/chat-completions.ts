/**
 * `POST /v1/chat/completions` (also with a trailing slash, and as `/invocations` for SageMaker's runtime) and `GET /v1/models`.
 */
import { readJson } from '../body.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { sendAnswer } from '../generated-answer.js'

/** `{"object":"list","data":[…]}`, written as its parts come and as fast as the client reads. */
function toJsonList(
  first: IteratorResult<readonly unknown[]>,
  parts: AsyncIterator<readonly unknown[]>,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let next: IteratorResult<readonly unknown[]> | null = first
  let isEmpty = true
  const write = (controller: ReadableStreamDefaultController<Uint8Array>, text: string): void =>
    controller.enqueue(encoder.encode(text))
  return new ReadableStream<Uint8Array>({
    start: (controller) => write(controller, '{"object":"list","data":['),
    pull: async (controller) => {
      const part = next ?? (await parts.next())
      next = null
      if (part.done === true) {
        write(controller, ']}')
        controller.close()
        return
      }
      const text = JSON.stringify(part.value).slice(1, -1)
      write(controller, text === '' || isEmpty ? text : `,${text}`)
      isEmpty &&= text === ''
    },
    cancel: async () => {
      await parts.return?.()
    },
  })
}

export function bindChatCompletions(app: App, options: AppOptions): void {
  const { chat } = options.services

  async function complete(c: RequestContext): Promise<Response> {
    const request = await readJson(c, 'chat', options.admission)
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
  app.get('/v1/models', async (c) => {
    const parts = chat.listModels(c.get('principal'))[Symbol.asyncIterator]()
    // what fails fails before the status is sent, except in the middle of thousands
    const first = await parts.next()
    return c.body(toJsonList(first, parts), 200, { 'content-type': 'application/json' })
  })
  app.get('/v1/models/:id{.+}', async (c) => c.json(await chat.describeModel(c.get('principal'), c.req.param('id'))))
}
