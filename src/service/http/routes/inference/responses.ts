/**
 * `/v1/responses`: create, streamed or not; get, delete, list the input of stored ones; count an input's tokens.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { getResponseQuerySchema } from '#contract/wire/inference/responses.js'
import { orderedPageQuerySchema } from '#contract/wire/list.js'
import type { ResponseAnswer } from '#service/operations/generation/responses/responses.js'
import { readJson, readQuery } from '../../body.js'
import type { App, AppOptions, RequestContext } from '../../environment.js'
import { sendEvents } from '../../event-stream.js'
import { exactText, sendExact } from '../../exact-body.js'
import { logStreamFailure } from '../../generated-answer.js'
import { withServedTools } from '../../served-tools.js'
import type { ServerSentEvent } from '../../sse.js'

const PING_MS = 15_000
const SERVED_TOOLS = ['function']

export function bindResponses(app: App, options: AppOptions): void {
  const { responses } = options.services

  async function create(c: RequestContext): Promise<Response> {
    const request = withServedTools(c, await readJson(c, 'response', options.admission), SERVED_TOOLS)
    const requestId = c.req.header('x-request-id') ?? request.request_id ?? options.ids.uuid().replaceAll('-', '')
    const gone = new AbortController()
    const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
    const answer = await responses
      .create(c.get('principal'), request, requestId.slice(0, 256), signal)
      .finally(() => options.admission.leave(c))
    c.header('x-trainyard-checkpoint', answer.checkpoint)
    c.set('logFacts', { model: request.model, is_stream: answer.isStream })
    if (!answer.isStream) return sendExact(c, await answer.response())
    const events = toEvents(answer, c, options)
    return sendEvents(c, events, { pingMs: PING_MS, onCancel: () => gone.abort() })
  }

  app.post('/v1/responses', create)
  app.post('/v1/responses/input_tokens', async (c) =>
    c.json(
      await responses.countInput(c.get('principal'), withServedTools(c, await readJson(c, 'response'), SERVED_TOOLS)),
    ),
  )
  app.get('/v1/responses/:response_id', async (c) => {
    if (readQuery(c, getResponseQuerySchema).stream === true) {
      throw new InvalidRequestError('not_supported', 'stream is not supported here.', {
        param: 'stream',
        hint: 'a response streams while it is created',
      })
    }
    return sendExact(c, await responses.get(c.get('principal'), c.req.param('response_id')))
  })
  app.delete('/v1/responses/:response_id', async (c) =>
    c.json(await responses.delete(c.get('principal'), c.req.param('response_id'))),
  )
  app.get('/v1/responses/:response_id/input_items', async (c) => {
    const query = readQuery(c, orderedPageQuerySchema)
    return sendExact(c, await responses.listInput(c.get('principal'), c.req.param('response_id'), query))
  })
}

/** Numbered events, each under its own name; there is no `[DONE]` in this format. */
async function* toEvents(
  answer: ResponseAnswer,
  c: RequestContext,
  options: Pick<AppOptions, 'logger'>,
): AsyncGenerator<ServerSentEvent> {
  let number = 0
  try {
    for await (const event of answer.events()) {
      yield { event: event.type, data: exactText({ ...event, sequence_number: number }) }
      number++
    }
  } catch (error) {
    // the last event has said it
    logStreamFailure(c, options, error)
  }
}
