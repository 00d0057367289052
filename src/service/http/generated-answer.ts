/**
 * Answers of models, whole or streamed: what chat and completions have in common on the way out.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { reportIgnored } from './body.js'
import type { AppOptions, RequestContext } from './environment.js'
import { sendEvents } from './event-stream.js'
import { toStreamError } from './middleware/errors.js'
import type { ServerSentEvent } from './sse.js'

const DEFAULT_PING_SECONDS = 15

/** An admitted request of any kind. */
export interface GeneratedAnswer {
  readonly checkpoint: string
  readonly isStream: boolean
  /** Parts of the request that the answer is not held to, by name. Absent: none. */
  readonly ignoredFields?: readonly string[]
  response(): Promise<{ readonly usage: { readonly completion_tokens: number } }>
  chunks(): AsyncIterable<unknown>
}

export interface AnswerRequest {
  readonly model: string | null | undefined
  /** The body's own id; a header overrides it. */
  readonly requestId: string | null | undefined
  /** Seconds of silence after which a stream sends a comment; 0 or less: never. Default 15. */
  readonly pingSeconds?: number | null | undefined
  readonly create: (requestId: string, signal: AbortSignal) => Promise<GeneratedAnswer>
}

/**
 * What the id of an answer is made of: the id of the request, which a header says, or its body; else a new one. It may become
 * part of a row.
 *
 * @throws {InvalidRequestError} for what not every database stores; headers cannot hold it
 */
export function answerIdOf(
  c: RequestContext,
  options: Pick<AppOptions, 'ids'>,
  ofBody: string | null | undefined,
): string {
  if (ofBody?.includes('\0') === true) {
    throw new InvalidRequestError('invalid_value', 'request_id must not hold the character U+0000.', {
      param: 'request_id',
      hint: 'leave the character out, or send no request_id',
    })
  }
  return (c.req.header('x-request-id') ?? ofBody ?? options.ids.uuid().replaceAll('-', '')).slice(0, 256)
}

/** Runs a request and sends its answer, or its chunks and `[DONE]`. */
export async function sendAnswer(
  c: RequestContext,
  options: Pick<AppOptions, 'ids' | 'logger' | 'admission'>,
  request: AnswerRequest,
): Promise<Response> {
  const requestId = answerIdOf(c, options, request.requestId)
  const gone = new AbortController()
  const signal = AbortSignal.any([c.req.raw.signal, gone.signal])
  const answer = await request.create(requestId, signal).finally(() => options.admission.leave(c))
  c.header('x-trainyard-checkpoint', answer.checkpoint)
  reportIgnored(c, answer.ignoredFields ?? [])
  const { model } = request
  if (!answer.isStream) {
    const response = await answer.response()
    c.set('logFacts', { model, completion_tokens: response.usage.completion_tokens })
    return c.json(response)
  }
  c.set('logFacts', { model, is_stream: true })
  // proxies cut connections on which nothing comes; clients skip comments
  const pingMs = Math.max(0, (request.pingSeconds ?? DEFAULT_PING_SECONDS) * 1000)
  return sendEvents(c, toEvents(answer, c, options), { pingMs, onCancel: () => gone.abort() })
}

/** Chunks, then `[DONE]`; an error after the first chunk is an event, for the status has been sent. */
async function* toEvents(
  answer: GeneratedAnswer,
  c: RequestContext,
  options: Pick<AppOptions, 'logger'>,
): AsyncGenerator<ServerSentEvent> {
  try {
    for await (const chunk of answer.chunks()) yield { data: JSON.stringify(chunk) }
  } catch (error) {
    logStreamFailure(c, options, error)
    yield { data: JSON.stringify(toStreamError(error)) }
  }
  yield { data: '[DONE]' }
}

/** For errors after the status has been sent. */
export function logStreamFailure(c: RequestContext, options: Pick<AppOptions, 'logger'>, error: unknown): void {
  const isOurs = !(error instanceof AppError) || error.category === 'internal'
  options.logger[isOurs ? 'error' : 'warn']({ request_id: c.get('requestId'), err: error }, 'chat.stream_failed')
}
