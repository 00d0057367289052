/**
 * Anthropic's messages: create, streamed or not; count the tokens of a prompt.
 */
import { reportIgnored } from '#service/http/body.js'
import type { AppOptions, RequestContext } from '#service/http/environment.js'
import { sendEvents } from '#service/http/event-stream.js'
import { exactText, sendExact } from '#service/http/exact-body.js'
import { answerIdOf, logStreamFailure } from '#service/http/generated-answer.js'
import { withServedTools } from '#service/http/served-tools.js'
import type { ServerSentEvent } from '#service/http/sse.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { messageEndpoints } from './endpoints.js'
import { toMessageError } from './errors.js'
import { createMessageService, type MessageAnswer } from './messages.js'

const PING_MS = 15_000
const SERVED_TOOLS = ['custom', null]

export function messageHandlers({ context, app }: PluginService): PluginHandlers<typeof messageEndpoints> {
  const messages = createMessageService(context, app.services)
  return {
    'POST /v1/messages': async ({ principal, body, c }) => {
      const request = withServedTools(c, await body(), SERVED_TOOLS)
      const requestId = answerIdOf(c, app, request.request_id)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
      const answer = await messages.create(principal, request, requestId, signal).finally(() => app.admission.leave(c))
      c.header('x-trainyard-checkpoint', answer.checkpoint)
      reportIgnored(c, answer.ignoredFields)
      c.header('request-id', c.get('requestId'))
      c.set('logFacts', { model: request.model, is_stream: answer.isStream })
      if (!answer.isStream) return sendExact(c, await answer.message())
      return sendEvents(c, toEvents(answer, c, app), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
    'POST /v1/messages/count_tokens': async ({ principal, body, c }) =>
      messages.countTokens(principal, withServedTools(c, await body(), SERVED_TOOLS)),
  }
}

/** Each under its own name; an error after the first one is an event, for the status has been sent. */
async function* toEvents(
  answer: MessageAnswer,
  c: RequestContext,
  options: Pick<AppOptions, 'logger'>,
): AsyncGenerator<ServerSentEvent> {
  try {
    for await (const event of answer.events()) yield { event: event.type, data: exactText(event) }
  } catch (error) {
    logStreamFailure(c, options, error)
    yield { event: 'error', data: JSON.stringify(toMessageError(error, c.get('requestId'))) }
  }
}
