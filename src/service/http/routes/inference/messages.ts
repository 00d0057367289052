/**
 * Anthropic's messages: create, streamed or not; count the tokens of a prompt.
 */
import type { MessageAnswer } from '#service/operations/generation/messages/messages.js'
import { reportIgnored } from '../../body.js'
import type { AppOptions, RequestContext } from '../../environment.js'
import { sendEvents } from '../../event-stream.js'
import { exactText, sendExact } from '../../exact-body.js'
import { answerIdOf, logStreamFailure } from '../../generated-answer.js'
import { handlers } from '../../handlers.js'
import { toMessageError } from '../../middleware/errors.js'
import { withServedTools } from '../../served-tools.js'
import type { ServerSentEvent } from '../../sse.js'

const PING_MS = 15_000
const SERVED_TOOLS = ['custom', null]

export function messageHandlers(options: AppOptions) {
  const { messages } = options.services
  return handlers({
    'POST /v1/messages': async ({ principal, body, c }) => {
      const request = withServedTools(c, await body(), SERVED_TOOLS)
      const requestId = answerIdOf(c, options, request.request_id)
      const gone = new AbortController()
      const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
      const answer = await messages
        .create(principal, request, requestId, signal)
        .finally(() => options.admission.leave(c))
      c.header('x-trainyard-checkpoint', answer.checkpoint)
      reportIgnored(c, answer.ignoredFields)
      c.header('request-id', c.get('requestId'))
      c.set('logFacts', { model: request.model, is_stream: answer.isStream })
      if (!answer.isStream) return sendExact(c, await answer.message())
      return sendEvents(c, toEvents(answer, c, options), { pingMs: PING_MS, onCancel: () => gone.abort() })
    },
    'POST /v1/messages/count_tokens': async ({ principal, body, c }) =>
      messages.countTokens(principal, withServedTools(c, await body(), SERVED_TOOLS)),
  })
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
