/**
 * `POST /v1/chat/completions` (also with a trailing slash) and `GET /v1/models`.
 */
import { AppError, NotFoundError } from '#base/errors.js'
import type { ChatAnswer } from '#service/operations/chat/chat.js'
import { readJson } from '../body.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { toStreamError } from '../middleware/errors.js'
import { EVENT_STREAM_HEADERS, type ServerSentEvent, toEventStream } from '../sse.js'

export function bindChatCompletions(app: App, options: AppOptions): void {
  const { chat } = options.services

  async function complete(c: RequestContext): Promise<Response> {
    const request = await readJson(c, 'chat')
    const requestId = c.req.header('x-request-id') ?? request.request_id ?? options.ids.uuid().replaceAll('-', '')
    const gone = new AbortController()
    const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
    const answer = await chat.create(c.get('principal'), request, requestId.slice(0, 256), signal)
    c.header('x-trainyard-checkpoint', answer.checkpoint)
    const { model } = request
    if (!answer.isStream) {
      const response = await answer.response()
      c.set('logFacts', { model, completion_tokens: response.usage.completion_tokens })
      return c.json(response)
    }
    c.set('logFacts', { model, is_stream: true })
    return c.body(
      toEventStream(toEvents(answer, c, options), { onCancel: () => gone.abort() }),
      200,
      EVENT_STREAM_HEADERS,
    )
  }

  app.post('/v1/chat/completions', complete)
  app.post('/v1/chat/completions/', complete)
  app.get('/v1/models', async (c) => c.json({ object: 'list', data: [...(await chat.listModels(c.get('principal')))] }))
  app.get('/v1/models/:id{.+}', async (c) => {
    const id = c.req.param('id')
    const name = id.replace(/^wandb-artifact:\/{2,3}/, '').replace(/:latest$/, '')
    const card = (await chat.listModels(c.get('principal'))).find((each) => each.id === name)
    if (card !== undefined) return c.json(card)
    throw new NotFoundError('model_not_found', `The model \`${id.slice(0, 500)}\` does not exist.`, {
      param: 'model',
      hint: 'GET /v1/models lists what answers here',
    })
  })
}

/** Chunks, then `[DONE]`; an error after the first chunk is an event, for the status has been sent. */
async function* toEvents(
  answer: ChatAnswer,
  c: RequestContext,
  options: Pick<AppOptions, 'logger'>,
): AsyncGenerator<ServerSentEvent> {
  try {
    for await (const chunk of answer.chunks()) yield { data: JSON.stringify(chunk) }
  } catch (error) {
    const isOurs = !(error instanceof AppError) || error.category === 'internal'
    options.logger[isOurs ? 'error' : 'warn']({ request_id: c.get('requestId'), err: error }, 'chat.stream_failed')
    yield { data: JSON.stringify(toStreamError(error)) }
  }
  yield { data: '[DONE]' }
}
