/**
 * Responses: create, streamed or not; get, delete, list the input of stored ones; count an input's tokens.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { reportIgnored } from '#service/http/body.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import { sendEvents } from '#service/http/event-stream.js'
import { exactText, sendExact } from '#service/http/exact-body.js'
import { answerIdOf, logStreamFailure } from '#service/http/generated-answer.js'
import { withServedTools } from '#service/http/served-tools.js'
import type { ServerSentEvent } from '#service/http/sse.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { responseEndpoints } from './endpoints.js'
import type { ResponseStore } from './response-store.js'
import { createResponseService, type ResponseAnswer } from './responses.js'

const PING_MS = 15_000
const SERVED_TOOLS = ['function']

export function responseHandlers({
  context,
  app,
  started: store,
}: PluginService<ResponseStore>): PluginHandlers<typeof responseEndpoints> {
  const { chat, tokens } = app.services
  const responses = createResponseService(context, { chat, tokens, store })
  return {
    'POST /v1/responses': async ({ principal, body, c }) => {
      const request = withServedTools(c, await body(), SERVED_TOOLS)
      const requestId = answerIdOf(c, app, request.request_id)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
      const answer = await responses.create(principal, request, requestId, signal).finally(() => app.admission.leave(c))
      c.header('x-trainyard-checkpoint', answer.checkpoint)
      reportIgnored(c, answer.ignoredFields)
      c.set('logFacts', { model: request.model, is_stream: answer.isStream })
      if (!answer.isStream) return sendExact(c, await answer.response())
      return sendEvents(c, toEvents(answer, c, app), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
    'POST /v1/responses/input_tokens': async ({ principal, body, c }) =>
      responses.countInput(principal, withServedTools(c, await body(), SERVED_TOOLS), c.req.raw.signal),
    'GET /v1/responses/{response_id}': async ({ principal, params, query, c }) => {
      if (query().stream === true) {
        throw new InvalidRequestError('not_supported', 'stream is not supported here.', {
          param: 'stream',
          hint: 'a response streams while it is created',
        })
      }
      return sendExact(c, await responses.get(principal, params.response_id))
    },
    'DELETE /v1/responses/{response_id}': ({ principal, params }) => responses.delete(principal, params.response_id),
    'GET /v1/responses/{response_id}/input_items': async ({ principal, params, query, c }) =>
      sendExact(c, await responses.listInput(principal, params.response_id, query())),
  }
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
