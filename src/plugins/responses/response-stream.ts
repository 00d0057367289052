/**
 * Chunks of a chat answer → the items of a response, and the events that a stream sends for them.
 *
 * An item is opened by its first text and closed when another kind begins; white space that is followed by a call belongs to
 * nothing. Events and their order follow OpenAI's reference; reasoning is sent whole, as `reasoning_text`.
 */
import { append } from '#base/util/lists.js'
import {
  type ChatChunk,
  type ChatDelta,
  type ChoiceLogprobs,
  SCHEMA_VIOLATIONS,
  type Usage,
} from '#contract/wire/chat-completions.js'
import { type SampledTokens, TokenRecorder } from '#service/operations/generation/chat/sampled-tokens.js'
import type { OutputItem, OutputText, Response } from './wire.js'

/** An event without its number. */
export interface ResponseEvent {
  readonly type: string
  readonly [field: string]: unknown
}

type Message = Extract<OutputItem, { type: 'message' }>
type Call = Extract<OutputItem, { type: 'function_call' }>
type Reasoning = Extract<OutputItem, { type: 'reasoning' }>
type ItemStatus = OutputItem['status']

/** What is written now. */
type Open =
  | { readonly kind: 'message'; readonly item: Message; readonly part: OutputText }
  | { readonly kind: 'call'; readonly item: Call; readonly number: number }
  | { readonly kind: 'reasoning'; readonly item: Reasoning; readonly part: Reasoning['content'][number] }

export interface ResponseBuilder {
  /** The events that open a stream. */
  begin(): readonly ResponseEvent[]
  /** The events of one chunk. */
  add(chunk: ChatChunk): readonly ResponseEvent[]
  /** The events that end it, after the last chunk. */
  end(completedSeconds: number): readonly ResponseEvent[]
  /** The event that ends it when something broke. */
  fail(error: NonNullable<Response['error']>): ResponseEvent
  /** As far as it is. */
  response(): Response
}

/**
 * @param frame the response before anything was generated
 * @param createId makes ids of items from a prefix
 */
export function createResponseBuilder(
  frame: Response,
  options: {
    readonly hasLogprobs: boolean
    /** What was sampled is shown. */
    readonly hasTokens: boolean
    readonly createId: (prefix: string) => string
  },
): ResponseBuilder {
  const { createId, hasLogprobs } = options
  const output: OutputItem[] = []
  let open: Open | null = null
  /** White space that begins a message, if anything follows. */
  let held = ''
  /** Log-probabilities of tokens whose text is held back, here or before: they come with that text. */
  let waiting: OutputText['logprobs'] = []
  let finishReason: string | null = null
  let usage: Usage | null = null
  let reasoningTokens = 0
  let changes: Partial<Response> = { status: 'in_progress' }
  const tokens = new TokenRecorder()
  let violations: Pick<Response, typeof SCHEMA_VIOLATIONS> = {}

  const response = (): Response => ({
    ...frame,
    ...changes,
    output: output.map((item) => ({ ...item })),
    usage: usage === null ? null : toUsage(usage, reasoningTokens),
    ...violations,
  })

  function place(): { readonly item_id: string; readonly output_index: number } {
    return { item_id: output.at(-1)?.id ?? '', output_index: output.length - 1 }
  }

  function added(item: OutputItem): ResponseEvent[] {
    output.push(item)
    return [{ type: 'response.output_item.added', output_index: output.length - 1, item: structuredClone(item) }]
  }

  function openMessage(): ResponseEvent[] {
    const part: OutputText = { type: 'output_text', text: '', annotations: [], logprobs: [] }
    const item: Message = {
      id: createId('msg'),
      type: 'message',
      role: 'assistant',
      status: 'in_progress',
      content: [],
    }
    const events = added(item)
    item.content.push(part)
    open = { kind: 'message', item, part }
    return [
      ...events,
      { type: 'response.content_part.added', ...place(), content_index: 0, part: { ...part, logprobs: [] } },
    ]
  }

  function openReasoning(): ResponseEvent[] {
    const part = { type: 'reasoning_text' as const, text: '' }
    const item: Reasoning = { id: createId('rs'), type: 'reasoning', summary: [], content: [], status: 'in_progress' }
    const events = added(item)
    item.content.push(part)
    open = { kind: 'reasoning', item, part }
    return [...events, { type: 'response.content_part.added', ...place(), content_index: 0, part: { ...part } }]
  }

  function close(status: ItemStatus = 'completed'): ResponseEvent[] {
    if (open === null) return []
    const closed = open
    open = null
    const end = { type: 'response.output_item.done', output_index: output.length - 1, item: closed.item }
    if (closed.kind === 'call') {
      const { name, arguments: given } = closed.item
      // a call is whole if its arguments are, wherever the answer was cut off; one that the model ended itself is, whatever it wrote
      const isWhole = status === 'completed' || isJson(given)
      closed.item.status = isWhole ? 'completed' : 'incomplete'
      return isWhole
        ? [{ type: 'response.function_call_arguments.done', ...place(), name, arguments: given }, end]
        : [end]
    }
    closed.item.status = status
    const { part } = closed
    const at = { ...place(), content_index: 0 }
    const textDone =
      closed.kind === 'message'
        ? { type: 'response.output_text.done', ...at, text: part.text, logprobs: closed.part.logprobs }
        : { type: 'response.reasoning_text.done', ...at, text: part.text }
    return [textDone, { type: 'response.content_part.done', ...at, part }, end]
  }

  function addContent(text: string, logprobs: OutputText['logprobs']): ResponseEvent[] {
    append(waiting, logprobs)
    if (open?.kind !== 'message') {
      held += text
      if (held.trim() === '') return []
    }
    const shown = open?.kind === 'message' ? text : held
    held = ''
    const opening = open?.kind === 'message' ? [] : [...close(), ...openMessage()]
    return [...opening, ...extendMessage(shown)]
  }

  function extendMessage(text: string): ResponseEvent[] {
    if (open?.kind !== 'message' || text === '') return []
    const logprobs = waiting
    waiting = []
    open.part.text += text
    append(open.part.logprobs, logprobs)
    return [{ type: 'response.output_text.delta', ...place(), content_index: 0, delta: text, logprobs }]
  }

  function addReasoning(text: string): ResponseEvent[] {
    waiting = []
    const opening = open?.kind === 'reasoning' ? [] : [...close(), ...openReasoning()]
    if (open?.kind !== 'reasoning') return opening
    open.part.text += text
    return [...opening, { type: 'response.reasoning_text.delta', ...place(), content_index: 0, delta: text }]
  }

  function addCall(call: NonNullable<ChatDelta['tool_calls']>[number]): ResponseEvent[] {
    const events: ResponseEvent[] = []
    held = ''
    waiting = []
    if (open?.kind !== 'call' || open.number !== call.index) {
      append(events, close())
      const item: Call = {
        id: createId('fc'),
        type: 'function_call',
        call_id: call.id ?? createId('call'),
        name: call.function.name ?? '',
        arguments: '',
        status: 'in_progress',
      }
      append(events, added(item))
      open = { kind: 'call', item, number: call.index }
    }
    const delta = call.function.arguments ?? ''
    if (delta === '' || open?.kind !== 'call') return events
    open.item.arguments += delta
    return [...events, { type: 'response.function_call_arguments.delta', ...place(), delta }]
  }

  return {
    response,
    begin: () => [
      { type: 'response.created', response: response() },
      { type: 'response.in_progress', response: response() },
    ],
    add: (chunk) => {
      if (chunk.usage !== undefined) usage = chunk.usage
      if (options.hasTokens) tokens.add(chunk)
      const [choice] = chunk.choices
      if (choice === undefined) return []
      const { delta } = choice
      const { content = '', reasoning = '', tool_calls: calls = [] } = delta
      const events: ResponseEvent[] = []
      if (reasoning !== '') {
        reasoningTokens += choice.token_ids?.length ?? 0
        append(events, addReasoning(reasoning))
      }
      const isEnd = choice.finish_reason !== null && content === ''
      const logprobs = hasLogprobs && !isEnd && delta.role === undefined ? toLogprobs(choice.logprobs) : []
      const isText = open === null || open.kind === 'message'
      if (content !== '' || (logprobs.length > 0 && isText)) {
        append(events, addContent(content, logprobs))
      }
      for (const call of calls) append(events, addCall(call))
      finishReason = choice.finish_reason ?? finishReason
      if (choice[SCHEMA_VIOLATIONS] !== undefined) violations = { [SCHEMA_VIOLATIONS]: choice[SCHEMA_VIOLATIONS] }
      return events
    },
    end: (completedSeconds) => {
      const isCut = finishReason === 'length'
      const events = [...close(isCut ? 'incomplete' : 'completed')]
      // an answer without text is a message too
      if (output.length === 0) append(events, [...openMessage(), ...extendMessage(held), ...close()])
      changes = isCut
        ? { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
        : { status: 'completed', completed_at: completedSeconds }
      changes = { ...changes, ...toGenerations(tokens.recorded(), output.length) }
      return [...events, { type: isCut ? 'response.incomplete' : 'response.completed', response: response() }]
    },
    fail: (error) => {
      changes = { status: 'failed', error }
      return { type: 'response.failed', response: response() }
    },
  }
}

/** One generation: nothing here calls tools between two. */
function toGenerations(tokens: SampledTokens | null, outputCount: number): Pick<Response, 'token_generations'> {
  if (tokens === null) return {}
  const { promptTokenIds, tokenIds, logprobs, sampling } = tokens
  const generation = {
    prompt_token_ids: [...promptTokenIds],
    output_tokens: tokenIds.map((id, t) => ({ token_id: id, logprob: logprobs[t] ?? 0 })),
    output_indices: Array.from({ length: outputCount }, (_, index) => index),
    ...(sampling === undefined ? {} : { sampling }),
  }
  return { token_generations: [generation] }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function toLogprobs(logprobs: ChoiceLogprobs | null): OutputText['logprobs'] {
  return (logprobs?.content ?? []).map(({ token, logprob, bytes, top_logprobs: top }) => ({
    token,
    logprob,
    bytes: bytes ?? [],
    top_logprobs: top.map((other) => ({ ...other, bytes: other.bytes ?? [] })),
  }))
}

function toUsage(usage: Usage, reasoningTokens: number): Response['usage'] {
  return {
    input_tokens: usage.prompt_tokens,
    input_tokens_details: { cached_tokens: usage.prompt_tokens_details?.cached_tokens ?? 0, cache_write_tokens: 0 },
    output_tokens: usage.completion_tokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: usage.total_tokens,
  }
}
