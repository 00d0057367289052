/**
 * The client's calls for answers: chats, whole and as streams, completions, and text and tokens without generation.
 */
import type { GivenBody } from '#contract/endpoints/table.js'
import type { ChatChunk, ChatRequestBody } from '#contract/wire/chat-completions.js'
import type { CompletionPrompt } from '#contract/wire/inference/completions.js'
import * as answers from './answers.js'
import { type CallOptions, createCalls, requestOf } from './calls.js'
import { ApiError, ProtocolError } from './errors.js'
import { assertAnswer, type Http, parseAnswer, sourceOf } from './http.js'
import { assertStream, readEvents } from './sse.js'

const CHAT = 'POST /v1/chat/completions'
/** One prompt may also stand alone. */
type CompletionBody = Omit<GivenBody<'POST /v1/completions'>, 'prompt'> & {
  readonly prompt: CompletionPrompt | readonly CompletionPrompt[]
}

export function createInferenceCalls(http: Http) {
  const { ask, plain, send } = createCalls(http)
  return {
    chat: {
      create: (request: ChatRequestBody, call: CallOptions = {}) =>
        ask(CHAT, answers.chatResponse, { json: { ...request, stream: false } }, { isLong: true, ...call }),
      stream: (request: ChatRequestBody, call: CallOptions = {}) => streamChat(request, call),
    },
    completions: {
      create: (request: CompletionBody, call: CallOptions = {}) =>
        ask(
          'POST /v1/completions',
          answers.completion,
          { json: { ...request, stream: false } },
          { isLong: true, ...call },
        ),
    },
    /** Text and tokens without generation. */
    text: {
      tokenize: send('POST /tokenize', answers.tokens),
      detokenize: send('POST /detokenize', answers.prompt),
      applyTemplate: send('POST /apply-template', answers.prompt),
    },
    servedModels: { list: plain('GET /v1/models', answers.servedModels) },
  }

  async function* streamChat(request: ChatRequestBody, call: CallOptions): AsyncGenerator<ChatChunk> {
    const json = { ...request, stream: true, stream_options: { include_usage: true } }
    const headers = { accept: 'text/event-stream' }
    const asked = requestOf(CHAT, { json }, { headers, isLong: true, ...call })
    const response = await http.open(asked)
    const source = sourceOf(http.baseUrl, asked)
    assertStream(response, source)
    for await (const message of readEvents(response)) {
      if (message.data === '[DONE]') return
      yield parseChunk(message.data, source)
    }
    throw new ProtocolError(`${source} ended the answer before it was complete`)
  }
}

/** A stream that fails half-way ends with an error object instead of a chunk. */
function parseChunk(data: string, source: string): ChatChunk {
  const chunk = parseAnswer<unknown>(data, { source })
  if (typeof chunk === 'object' && chunk !== null && 'error' in chunk) {
    const { error } = chunk
    const code = typeof error === 'object' && error !== null && 'code' in error ? Number(error.code) : Number.NaN
    const status = code >= 400 && code < 600 ? code : 500
    throw new ApiError({ status, body: chunk, requestId: null, retryAfterMs: null })
  }
  return assertAnswer(chunk, { source, check: answers.chatChunk })
}
