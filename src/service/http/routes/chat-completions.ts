/**
 * Chat in OpenAI's format, and which models answer.
 */
import type { AppOptions } from '../environment.js'
import { sendAnswer } from '../generated-answer.js'
import { handlers } from '../handlers.js'

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
    'GET /v1/models': async ({ principal, c }) => {
      const parts = chat.listModels(principal)[Symbol.asyncIterator]()
      // what fails fails before the status is sent, except in the middle of thousands
      const first = await parts.next()
      return c.body(toJsonList(first, parts), 200, { 'content-type': 'application/json' })
    },
    'GET /v1/models/{+id}': ({ principal, params }) => chat.describeModel(principal, params.id),
  })
}
