/**
 * Responses: items to a conversation, chat's answer to items. Everything that generates is chat's.
 */

import { AppError, NotFoundError } from '#base/errors/errors.js'
import type { JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { DEFAULT_PAGE_LIMIT, type OrderedPageQuery } from '#contract/wire/list.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import type { TokenService } from '#service/operations/generation/text/tokens.js'
import { unknownCursor } from '#service/storage/paging.js'
import { checkInput, toInputItems, toListedItem, toMessages } from './response-input.js'
import { toChatRequest } from './response-request.js'
import type { ResponseStore } from './response-store.js'
import { createResponseBuilder, type ResponseBuilder, type ResponseEvent } from './response-stream.js'
import type { StoredResponse } from './waiting-responses.js'
import type { DeletedResponse, InputItem, InputItemList, InputTokens, Response, ResponseRequest } from './wire.js'

/** An admitted request. Exactly one of the two ways to read it is used. */
export interface ResponseAnswer {
  readonly checkpoint: string
  readonly ignoredFields: readonly string[]
  readonly isStream: boolean
  response(): Promise<Response>
  events(): AsyncIterable<ResponseEvent>
}

interface Finished {
  readonly events: readonly ResponseEvent[]
  /** Resolves when whoever goes on from the response finds it; at once if it is not kept. */
  readonly stored: Promise<void>
}

interface ResponseService {
  /** As `ChatService.create`. */
  create(
    principal: Principal,
    request: ResponseRequest,
    requestId: string,
    signal: AbortSignal,
  ): Promise<ResponseAnswer>
  /** @throws {NotFoundError} `response_not_found` */
  get(principal: Principal, id: string): Promise<Response>
  /** The latest first, unless asked for otherwise. */
  listInput(principal: Principal, id: string, query: OrderedPageQuery): Promise<InputItemList>
  delete(principal: Principal, id: string): Promise<DeletedResponse>
  /** How long the prompt of a request would be. */
  countInput(principal: Principal, request: ResponseRequest, signal: AbortSignal): Promise<InputTokens>
}

export function createResponseService(
  context: Pick<ServiceContext, 'ids' | 'clock'>,
  { chat, tokens, store }: { readonly chat: ChatService; readonly tokens: TokenService; readonly store: ResponseStore },
): ResponseService {
  const createId = (prefix: string): string => `${prefix}_${context.ids.uuid().replaceAll('-', '')}`

  async function find(principal: Principal, id: string): Promise<StoredResponse> {
    const stored = await store.find(principal, id)
    if (stored === null) throw notFound(id)
    return stored
  }

  /** The whole conversation of a request, and its own part. */
  async function readInput(
    principal: Principal,
    request: ResponseRequest,
    signal: AbortSignal,
  ): Promise<readonly InputItem[]> {
    const id = request.previous_response_id ?? null
    const previous = id === null ? null : await findPrevious(principal, id)
    const own = await toInputItems(request.input ?? [], (itemId) => store.findItem(principal, itemId), signal)
    checkInput(own, previous === null)
    // clients number what they send, so that it can be referred to
    const numbered = own.map((item) => (typeof item['id'] === 'string' ? item : { ...item, id: createId('item') }))
    return previous === null ? numbered : [...previous.items, ...previous.response.output, ...numbered]
  }

  async function findPrevious(principal: Principal, id: string): Promise<StoredResponse> {
    const stored = await store.find(principal, id)
    if (stored !== null) return stored
    throw new NotFoundError(
      'previous_response_not_found',
      `Previous response with id '${id.slice(0, 200)}' not found.`,
      {
        param: 'previous_response_id',
        hint: 'responses are kept for 30 days unless store is false, the newest ones; send all items instead',
      },
    )
  }

  return {
    create: async (principal, request, requestId, signal) => {
      const items = await readInput(principal, request, signal)
      const chatRequest = toChatRequest(request, toMessages(items))
      const answer = await chat.create(principal, chatRequest, requestId, signal)
      const frame = toFrame(request, {
        id: `resp_${requestId}`,
        createdSeconds: Math.floor(context.clock.nowMs() / 1000),
        fingerprint: answer.checkpoint,
      })
      const hasLogprobs = chatRequest.logprobs === true
      const chunks = answer.chunks()[Symbol.asyncIterator]()
      // the first chunk knows what the model is called
      const first = await chunks.next()
      const model = first.done === true ? '' : first.value.model
      const builder = createResponseBuilder(
        { ...frame, model },
        { hasLogprobs, hasTokens: answer.isTrainable, createId },
      )
      const finish = (): Finished => {
        const events = builder.end(Math.floor(context.clock.nowMs() / 1000))
        // its tokens are many times as large, and whoever trains on them has them
        const { token_generations: _, ...response } = builder.response()
        return { events, stored: frame.store ? store.put(principal, { response, items }) : Promise.resolve() }
      }
      return {
        checkpoint: answer.checkpoint,
        ignoredFields: answer.ignoredFields.map(toOwnName),
        isStream: request.stream === true,
        response: async () => {
          for (let next = first; next.done !== true; next = await chunks.next()) builder.add(next.value)
          if (signal.aborted) throw new AppError('cancelled', 'cancelled', 'the client closed the connection')
          await finish().stored
          return builder.response()
        },
        events: () => stream({ first, chunks, builder, finish }),
      }
    },
    get: async (principal, id) => {
      const response = await store.get(principal, id)
      if (response === null) throw notFound(id)
      return response
    },
    listInput: async (principal, id, { after, limit = DEFAULT_PAGE_LIMIT, order = 'desc' }) => {
      const { items } = await find(principal, id)
      const ordered = (order === 'asc' ? items : [...items].reverse()).map(toListedItem)
      // an id may be the client's own and stand there twice: behind the last one every walk ends
      const start = after === undefined ? 0 : 1 + ordered.findLastIndex((item) => item['id'] === after)
      if (after !== undefined && start === 0) throw unknownCursor(after)
      const data = ordered.slice(start, start + limit)
      return {
        object: 'list',
        data: data as JsonValue[] as InputItemList['data'],
        first_id: String(data[0]?.['id'] ?? ''),
        last_id: String(data.at(-1)?.['id'] ?? ''),
        has_more: start + limit < ordered.length,
      }
    },
    delete: async (principal, id) => {
      if (!(await store.delete(principal, id))) throw notFound(id)
      return { id, object: 'response', deleted: true }
    },
    countInput: async (principal, request, signal) => {
      const chatRequest = toChatRequest(request, toMessages(await readInput(principal, request, signal)))
      const { messages, tools, reasoning_effort, chat_template_kwargs, model } = chatRequest
      const counted: ChatRequest = { messages, tools, reasoning_effort, chat_template_kwargs, model }
      const { count } = await tokens.tokenize(principal, counted)
      return { object: 'response.input_tokens', input_tokens: count }
    },
  }
}

function notFound(id: string): NotFoundError {
  return new NotFoundError('response_not_found', `Response with id '${id.slice(0, 200)}' not found.`, {
    hint: 'responses are kept for 30 days unless store is false, the newest ones',
  })
}

/** A field of chat in the words of responses. */
function toOwnName(name: string): string {
  return name === 'reasoning_effort' ? 'reasoning.effort' : name.replace(/^response_format\./, 'text.format.')
}

async function* stream({
  first,
  chunks,
  builder,
  finish,
}: {
  readonly first: Awaited<ReturnType<AsyncIterator<Parameters<ResponseBuilder['add']>[0]>['next']>>
  readonly chunks: AsyncIterator<Parameters<ResponseBuilder['add']>[0]>
  readonly builder: ResponseBuilder
  readonly finish: () => Finished
}): AsyncGenerator<ResponseEvent> {
  try {
    yield* builder.begin()
    for (let next = first; next.done !== true; next = await chunks.next()) yield* builder.add(next.value)
    const { events, stored } = finish()
    yield* events.slice(0, -1)
    // what goes on from it may come behind the last event, at another server
    await stored
    yield* events.slice(-1)
  } catch (error) {
    const isShown = error instanceof AppError && error.category !== 'internal'
    yield builder.fail({ code: 'server_error', message: isShown ? error.message : 'Internal server error' })
    throw error
  } finally {
    await chunks.return?.()
  }
}

/** The response before anything was generated: what the request asked for, as it was understood. */
function toFrame(
  request: ResponseRequest,
  identity: { readonly id: string; readonly createdSeconds: number; readonly fingerprint: string },
): Response {
  return {
    id: identity.id,
    object: 'response',
    created_at: identity.createdSeconds,
    completed_at: null,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    model: request.model ?? '',
    output: [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    service_tier: 'default',
    store: request.store ?? true,
    system_fingerprint: identity.fingerprint,
    temperature: request.temperature ?? 1,
    text: { format: { type: 'text' }, ...request.text } as Response['text'],
    tool_choice: (request.tool_choice ?? 'auto') as Response['tool_choice'],
    tools: (request.tools ?? []) as Response['tools'],
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? 1,
    truncation: 'disabled',
    usage: null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
  }
}
