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

interface ResponseOptions {
  readonly hasLogprobs: boolean
  /** What was sampled is shown. */
  readonly hasTokens: boolean
  /** Makes ids of items from a prefix. */
  readonly createId: (prefix: string) => string
}

/** @param frame the response before anything was generated */
export function createResponseBuilder(frame: Response, options: ResponseOptions): ResponseBuilder {
  return new ResponseItems(frame, options)
}

class ResponseItems implements ResponseBuilder {
  readonly #frame: Response
  readonly #options: ResponseOptions
  readonly #output: OutputItem[] = []
  #open: Open | null = null
  /** White space that begins a message, if anything follows. */
  #held = ''
  /** Log-probabilities of tokens whose text is held back, here or before: they come with that text. */
  #waiting: OutputText['logprobs'] = []
  #finishReason: string | null = null
  #usage: Usage | null = null
  #reasoningTokens = 0
  #changes: Partial<Response> = { status: 'in_progress' }
  readonly #tokens = new TokenRecorder()
  #violations: Pick<Response, typeof SCHEMA_VIOLATIONS> = {}

  constructor(frame: Response, options: ResponseOptions) {
    this.#frame = frame
    this.#options = options
  }

  response(): Response {
    return {
      ...this.#frame,
      ...this.#changes,
      output: this.#output.map((item) => ({ ...item })),
      usage: this.#usage === null ? null : toUsage(this.#usage, this.#reasoningTokens),
      ...this.#violations,
    }
  }

  begin(): readonly ResponseEvent[] {
    return [
      { type: 'response.created', response: this.response() },
      { type: 'response.in_progress', response: this.response() },
    ]
  }

  add(chunk: ChatChunk): readonly ResponseEvent[] {
    if (chunk.usage !== undefined) this.#usage = chunk.usage
    if (this.#options.hasTokens) this.#tokens.add(chunk)
    const [choice] = chunk.choices
    if (choice === undefined) return []
    const { delta } = choice
    const { content = '', reasoning = '', tool_calls: calls = [] } = delta
    const events: ResponseEvent[] = []
    if (reasoning !== '') {
      this.#reasoningTokens += choice.token_ids?.length ?? 0
      append(events, this.#addReasoning(reasoning))
    }
    const isEnd = choice.finish_reason !== null && content === ''
    const logprobs = this.#options.hasLogprobs && !isEnd && delta.role === undefined ? toLogprobs(choice.logprobs) : []
    const isText = this.#open === null || this.#open.kind === 'message'
    if (content !== '' || (logprobs.length > 0 && isText)) {
      append(events, this.#addContent(content, logprobs))
    }
    for (const call of calls) append(events, this.#addCall(call))
    this.#finishReason = choice.finish_reason ?? this.#finishReason
    if (choice[SCHEMA_VIOLATIONS] !== undefined) this.#violations = { [SCHEMA_VIOLATIONS]: choice[SCHEMA_VIOLATIONS] }
    return events
  }

  end(completedSeconds: number): readonly ResponseEvent[] {
    const isCut = this.#finishReason === 'length'
    const events = [...this.#close(isCut ? 'incomplete' : 'completed')]
    // an answer without text is a message too
    if (this.#output.length === 0)
      append(events, [...this.#openMessage(), ...this.#extendMessage(this.#held), ...this.#close()])
    this.#changes = isCut
      ? { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
      : { status: 'completed', completed_at: completedSeconds }
    this.#changes = { ...this.#changes, ...toGenerations(this.#tokens.recorded(), this.#output.length) }
    return [...events, { type: isCut ? 'response.incomplete' : 'response.completed', response: this.response() }]
  }

  fail(error: NonNullable<Response['error']>): ResponseEvent {
    this.#changes = { status: 'failed', error }
    return { type: 'response.failed', response: this.response() }
  }

  #place(): { readonly item_id: string; readonly output_index: number } {
    return { item_id: this.#output.at(-1)?.id ?? '', output_index: this.#output.length - 1 }
  }

  #added(item: OutputItem): ResponseEvent[] {
    this.#output.push(item)
    return [{ type: 'response.output_item.added', output_index: this.#output.length - 1, item: structuredClone(item) }]
  }

  #openMessage(): ResponseEvent[] {
    const part: OutputText = { type: 'output_text', text: '', annotations: [], logprobs: [] }
    const item: Message = {
      id: this.#options.createId('msg'),
      type: 'message',
      role: 'assistant',
      status: 'in_progress',
      content: [],
    }
    const events = this.#added(item)
    item.content.push(part)
    this.#open = { kind: 'message', item, part }
    return [
      ...events,
      { type: 'response.content_part.added', ...this.#place(), content_index: 0, part: { ...part, logprobs: [] } },
    ]
  }

  #openReasoning(): ResponseEvent[] {
    const part = { type: 'reasoning_text' as const, text: '' }
    const item: Reasoning = {
      id: this.#options.createId('rs'),
      type: 'reasoning',
      summary: [],
      content: [],
      status: 'in_progress',
    }
    const events = this.#added(item)
    item.content.push(part)
    this.#open = { kind: 'reasoning', item, part }
    return [...events, { type: 'response.content_part.added', ...this.#place(), content_index: 0, part: { ...part } }]
  }

  #close(status: ItemStatus = 'completed'): ResponseEvent[] {
    if (this.#open === null) return []
    const closed = this.#open
    this.#open = null
    const end = { type: 'response.output_item.done', output_index: this.#output.length - 1, item: closed.item }
    if (closed.kind === 'call') {
      const { name, arguments: given } = closed.item
      // a call is whole if its arguments are, wherever the answer was cut off; one that the model ended itself is, whatever it wrote
      const isWhole = status === 'completed' || isJson(given)
      closed.item.status = isWhole ? 'completed' : 'incomplete'
      return isWhole
        ? [{ type: 'response.function_call_arguments.done', ...this.#place(), name, arguments: given }, end]
        : [end]
    }
    closed.item.status = status
    const { part } = closed
    const at = { ...this.#place(), content_index: 0 }
    const textDone =
      closed.kind === 'message'
        ? { type: 'response.output_text.done', ...at, text: part.text, logprobs: closed.part.logprobs }
        : { type: 'response.reasoning_text.done', ...at, text: part.text }
    return [textDone, { type: 'response.content_part.done', ...at, part }, end]
  }

  #addContent(text: string, logprobs: OutputText['logprobs']): ResponseEvent[] {
    append(this.#waiting, logprobs)
    if (this.#open?.kind !== 'message') {
      this.#held += text
      if (this.#held.trim() === '') return []
    }
    const shown = this.#open?.kind === 'message' ? text : this.#held
    this.#held = ''
    const opening = this.#open?.kind === 'message' ? [] : [...this.#close(), ...this.#openMessage()]
    return [...opening, ...this.#extendMessage(shown)]
  }

  #extendMessage(text: string): ResponseEvent[] {
    if (this.#open?.kind !== 'message' || text === '') return []
    const logprobs = this.#waiting
    this.#waiting = []
    this.#open.part.text += text
    append(this.#open.part.logprobs, logprobs)
    return [{ type: 'response.output_text.delta', ...this.#place(), content_index: 0, delta: text, logprobs }]
  }

  #addReasoning(text: string): ResponseEvent[] {
    this.#waiting = []
    const opening = this.#open?.kind === 'reasoning' ? [] : [...this.#close(), ...this.#openReasoning()]
    if (this.#open?.kind !== 'reasoning') return opening
    this.#open.part.text += text
    return [...opening, { type: 'response.reasoning_text.delta', ...this.#place(), content_index: 0, delta: text }]
  }

  #addCall(call: NonNullable<ChatDelta['tool_calls']>[number]): ResponseEvent[] {
    const events: ResponseEvent[] = []
    this.#held = ''
    this.#waiting = []
    if (this.#open?.kind !== 'call' || this.#open.number !== call.index) {
      append(events, this.#close())
      const item: Call = {
        id: this.#options.createId('fc'),
        type: 'function_call',
        call_id: call.id ?? this.#options.createId('call'),
        name: call.function.name ?? '',
        arguments: '',
        status: 'in_progress',
      }
      append(events, this.#added(item))
      this.#open = { kind: 'call', item, number: call.index }
    }
    const delta = call.function.arguments ?? ''
    if (delta === '' || this.#open?.kind !== 'call') return events
    this.#open.item.arguments += delta
    return [...events, { type: 'response.function_call_arguments.delta', ...this.#place(), delta }]
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
