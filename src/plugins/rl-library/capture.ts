/**
 * Records what any client of chat completions does: a `fetch` that adds token ids and log-probabilities to the requests
 * passing through it and keeps the answers in a trajectory. The client sees its answer as always. Of `top_p` and `min_p` at most the 512
 * likeliest tokens are drawn from, which are recorded then.
 *
 * A request whose messages go on from a recorded history extends it; any other begins a side conversation, which is
 * trained with the reward of the episode.
 */

import { AppError } from '#base/errors/errors.js'
import { parseExactRow, stringifyExact } from '#base/json/exact-json.js'
import { withRecordedSets } from '#base/sampling-record.js'
import type { JsonObject } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import type { ChatChunk, ChatResponse } from '#contract/wire/chat-completions.js'
import { lightFetch } from '#sdk/client/light-fetch.js'
import { createEventReader } from '#sdk/client/sse.js'
import { joinChunks } from '#sdk/rl/join-chunks.js'
import {
  type Choice,
  type History,
  isChoice,
  type Message,
  type Tool,
  type Trajectory,
  toMessage,
} from '#sdk/rl/trajectory.js'

/**
 * Creates the recording `fetch`; requests other than chat completions pass through untouched.
 *
 * @param send sends the requests; by default the platform's, and for chats one that waits longer than its 300 seconds
 */
export function captureFetch(trajectory: Trajectory, send?: typeof fetch): typeof fetch {
  return async function recordingFetch(input, init) {
    const url = input instanceof Request ? input.url : String(input)
    const isChat = init?.method?.toUpperCase() === 'POST' && /\/chat\/completions\/?(\?.*)?$/.test(url)
    if (!isChat || typeof init.body !== 'string') return await (send ?? fetch)(input, init)
    const given = parseExactRow(init.body) as JsonObject
    const request = given as JsonObject & CapturedRequest
    if ((request.n ?? 1) !== 1) {
      throw new AppError(
        'invalid_request',
        'one_answer_per_turn',
        `a trajectory records one answer per request, got n = ${request.n}`,
      )
    }
    const body = stringifyExact({ ...withRecordedSets(given), logprobs: true, return_token_ids: true })
    const headers = new Headers(init.headers)
    headers.delete('content-length')
    const response = await (send ?? lightFetch)(url, { ...init, headers, body })
    if (!response.ok || response.body === null) return response
    const record = (answer: ChatResponse): void => {
      trajectory.record(answer, historyFor(trajectory, request))
    }
    if (request.stream === true) return withBody(response, response.body.pipeThrough(assemble(record)))
    const text = await response.text()
    record(JSON.parse(text) as ChatResponse)
    return withBody(response, text)
  }
}

/** The OpenAI client, or any other that takes a `fetch` by `withOptions`. */
interface Configurable<C> {
  withOptions(options: { readonly fetch: typeof fetch }): C
}

/**
 * The same client, recording into a trajectory.
 *
 * @example const openai = capture(new OpenAI({ baseURL, apiKey }), trajectory)
 */
export function capture<C extends Configurable<C>>(client: C, trajectory: Trajectory): C {
  return client.withOptions({ fetch: captureFetch(trajectory) })
}

interface CapturedRequest {
  readonly messages: readonly Message[]
  readonly tools?: readonly Tool[] | null
  readonly n?: number | null
  readonly stream?: boolean | null
}

function withBody(response: Response, body: string | ReadableStream<Uint8Array>): Response {
  const headers = new Headers(response.headers)
  // The platform has unpacked the body already.
  headers.delete('content-encoding')
  headers.delete('content-length')
  return new Response(body, { status: response.status, statusText: response.statusText, headers })
}

/** The history that the request's messages continue, brought up to the request; a new one when there is none. */
function historyFor(trajectory: Trajectory, request: CapturedRequest): History {
  const { messages } = request
  const tools = request.tools ?? null
  const known = trajectory.histories.find(
    ({ items }) => items.length <= messages.length && items.every((item, i) => isSame(item, messages[i])),
  )
  if (known !== undefined) {
    append(known.items, messages.slice(known.items.length))
    known.tools ??= tools
    return known
  }
  const history: History = { items: [...messages], tools }
  trajectory.histories.push(history)
  return history
}

/** Clients rebuild messages from what they parsed: what counts is who said what, and which tools were called. */
function isSame(item: Message | Choice, message: Message | undefined): boolean {
  if (message === undefined) return false
  const [ours, theirs] = [isChoice(item) ? toMessage(item) : item, message]
  return (
    ours.role === theirs.role &&
    textOf(ours) === textOf(theirs) &&
    (ours.tool_call_id ?? null) === (theirs.tool_call_id ?? null) &&
    callsOf(ours) === callsOf(theirs)
  )
}

function textOf({ content }: Message): string {
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  return content.map((part) => (typeof part === 'string' ? part : String(part['text'] ?? ''))).join('')
}

function callsOf({ tool_calls: calls }: Message): string {
  return (calls ?? []).map((call) => String(call['id'] ?? '')).join(' ')
}

/** Reads a stream as it passes and hands over the whole answer before the client sees the end of it. */
function assemble(onAnswer: (answer: ChatResponse) => void): TransformStream<Uint8Array, Uint8Array> {
  const chunks: ChatChunk[] = []
  let isDone = false
  function finish(): void {
    const isWhole = chunks.some((chunk) => chunk.choices.some((choice) => choice.finish_reason !== null))
    if (isDone || !isWhole) return
    isDone = true
    onAnswer(joinChunks(chunks))
  }
  const read = createEventReader((data) => {
    if (data === '[DONE]') return finish()
    const chunk = JSON.parse(data) as ChatChunk | { readonly error: unknown }
    if ('error' in chunk) isDone = true
    else chunks.push(chunk)
  })
  return new TransformStream({
    transform(bytes, controller) {
      read(bytes)
      controller.enqueue(bytes)
    },
    flush: finish,
  })
}
