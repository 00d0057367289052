/**
 * Responses: create, streamed or not; get, delete, list the input of stored ones; count an input's tokens.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import type { ResponseAnswer } from '#service/operations/generation/responses/responses.js'
import { reportIgnored } from '../../body.js'
import type { AppOptions, RequestContext } from '../../environment.js'
import { sendEvents } from '../../event-stream.js'
import { exactText, sendExact } from '../../exact-body.js'
import { answerIdOf, logStreamFailure } from '../../generated-answer.js'
import { handlers } from '../../handlers.js'
import { withServedTools } from '../../served-tools.js'
import type { ServerSentEvent } from '../../sse.js'

const PING_MS = 15_000
const SERVED_TOOLS = ['function']

export function responseHandlers(options: AppOptions) {
  const { responses } = options.services
  return handlers({
    'POST /v1/responses': async ({ principal, body, c }) => {
      const request = withServedTools(c, await body(), SERVED_TOOLS)
      const requestId = answerIdOf(c, options, request.request_id)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
      const answer = await responses
        .create(principal, request, requestId, signal)
        .finally(() => options.admission.leave(c))
      c.header('x-trainyard-checkpoint', answer.checkpoint)
      reportIgnored(c, answer.ignoredFields)
      c.set('logFacts', { model: request.model, is_stream: answer.isStream })
      if (!answer.isStream) return sendExact(c, await answer.response())
      return sendEvents(c, toEvents(answer, c, options), { pingMs: PING_MS, onCancel: () => gone.abort() })
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
