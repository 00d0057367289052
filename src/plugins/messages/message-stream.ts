/**
 * Chunks of a chat answer → the blocks of a message, and the events that a stream sends for them.
 *
 * A block is opened by its first text and closed when another kind begins; white space that is followed by a call belongs to nothing.
 * Events and their order follow Anthropic's reference. Reasoning is sent whole, as `thinking`, with an empty signature: nothing here
 * is encrypted, and nothing is checked when it comes back.
 */

import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject } from '#base/util/json.js'
import { append } from '#base/util/lists.js'
import { type ChatChunk, type ChatDelta, SCHEMA_VIOLATIONS, type Usage } from '#contract/wire/chat-completions.js'
import { INVALID_JSON } from '#formats/answers/call-id.js'
import { TokenRecorder } from '#service/operations/generation/chat/sampled-tokens.js'
import type { Message, OutputBlock, StopReason } from './wire.js'

/** An event of a stream; its name is its type. */
export interface MessageEvent {
  readonly type: string
  readonly [field: string]: unknown
}

type ToolUse = Extract<OutputBlock, { type: 'tool_use' }>
type OpenBlock =
  | { readonly block: Exclude<OutputBlock, ToolUse> }
  | { readonly block: ToolUse; readonly number: number; input: string }

export interface MessageBuilder {
  /** The event that opens a stream. */
  begin(): MessageEvent
  /** The events of one chunk. */
  add(chunk: ChatChunk): readonly MessageEvent[]
  /** The events that end it, after the last chunk. */
  end(): readonly MessageEvent[]
  /**
   * As far as it is. Input that is no object, as a model may write it and as a call has that was cut off, stands as its text under one
   * key: half of it would be another call.
   */
  message(): Message
}

interface MessageOptions {
  readonly createId: (prefix: string) => string
  readonly hasTokens: boolean
}

/** @param frame the message before anything was generated */
export function createMessageBuilder(frame: Pick<Message, 'id' | 'model'>, options: MessageOptions): MessageBuilder {
  return new MessageBlocks(frame, options)
}

class MessageBlocks implements MessageBuilder {
  readonly #frame: Pick<Message, 'id' | 'model'>
  readonly #options: MessageOptions
  readonly #content: OutputBlock[] = []
  /** Blocks that were begun: a stream cannot take back a call that was cut off. */
  #begun = 0
  #open: OpenBlock | null = null
  /** White space that begins a text, if anything follows. */
  #held = ''
  #hasCalls = false
  #ending: Pick<Message, 'stop_reason' | 'stop_sequence'> = { stop_reason: null, stop_sequence: null }
  #usage: Usage | null = null
  #thinkingTokens = 0
  readonly #tokens = new TokenRecorder()
  #sampled: Pick<Message, 'prompt_token_ids' | 'token_ids' | 'logprobs' | 'sampling'> = {}
  #violations: Pick<Message, typeof SCHEMA_VIOLATIONS> = {}

  constructor(frame: Pick<Message, 'id' | 'model'>, options: MessageOptions) {
    this.#frame = frame
    this.#options = options
  }

  message(): Message {
    return {
      id: this.#frame.id,
      type: 'message',
      role: 'assistant',
      model: this.#frame.model,
      content: this.#content.map((block) => ({ ...block })),
      ...this.#ending,
      stop_details: null,
      container: null,
      diagnostics: null,
      usage: toUsage(this.#usage, this.#thinkingTokens),
      ...this.#violations,
      ...this.#sampled,
    }
  }

  begin(): MessageEvent {
    return { type: 'message_start', message: this.message() }
  }

  add(chunk: ChatChunk): readonly MessageEvent[] {
    if (chunk.usage !== undefined) this.#usage = chunk.usage
    if (this.#options.hasTokens) this.#tokens.add(chunk)
    const [choice] = chunk.choices
    if (choice === undefined) return []
    const { content: text = '', reasoning = '', tool_calls: calls = [] } = choice.delta
    if (reasoning !== '') this.#thinkingTokens += choice.token_ids?.length ?? 0
    const events = [
      ...(reasoning === '' ? [] : this.#addThinking(reasoning)),
      ...(text === '' ? [] : this.#addText(text)),
      ...calls.flatMap((call) => this.#addCall(call)),
    ]
    if (choice[SCHEMA_VIOLATIONS] !== undefined) this.#violations = { [SCHEMA_VIOLATIONS]: choice[SCHEMA_VIOLATIONS] }
    if (choice.finish_reason !== null) this.#ending = this.#end(choice.finish_reason, choice.stop_reason)
    return events
  }

  end(): readonly MessageEvent[] {
    const events = this.#close()
    const found = this.#tokens.recorded()
    if (found !== null) {
      const { promptTokenIds, tokenIds, logprobs, sampling } = found
      this.#sampled = {
        prompt_token_ids: [...promptTokenIds],
        token_ids: [...tokenIds],
        logprobs: [...logprobs],
        ...(sampling === undefined ? {} : { sampling }),
      }
    }
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, ...counted } = this.message().usage
    return [
      ...events,
      {
        type: 'message_delta',
        delta: { ...this.#ending, stop_details: null, container: null, ...this.#violations },
        ...this.#sampled,
        usage: {
          input_tokens,
          cache_creation_input_tokens,
          cache_read_input_tokens,
          output_tokens: counted.output_tokens,
          output_tokens_details: counted.output_tokens_details,
          server_tool_use: null,
        },
      },
      { type: 'message_stop' },
    ]
  }

  #begin(opened: OpenBlock): MessageEvent[] {
    const events = this.#close()
    this.#open = opened
    this.#begun++
    return [...events, { type: 'content_block_start', index: this.#begun - 1, content_block: { ...opened.block } }]
  }

  #delta(fields: Readonly<Record<string, string>>): MessageEvent {
    return { type: 'content_block_delta', index: this.#begun - 1, delta: fields }
  }

  #close(): MessageEvent[] {
    if (this.#open === null) return []
    const { block } = this.#open
    const input = 'input' in this.#open ? readInput(this.#open.input, this.#ending.stop_reason === 'max_tokens') : {}
    const signed =
      block.type === 'thinking' ? [this.#delta({ type: 'signature_delta', signature: block.signature })] : []
    if (block.type !== 'tool_use') this.#content.push(block)
    else this.#content.push({ ...block, input })
    this.#open = null
    return [...signed, { type: 'content_block_stop', index: this.#begun - 1 }]
  }

  #addText(text: string): MessageEvent[] {
    if (this.#open?.block.type === 'text') {
      this.#open.block.text += text
      return [this.#delta({ type: 'text_delta', text })]
    }
    this.#held += text
    if (this.#held.trim() === '') return []
    const shown = this.#held
    this.#held = ''
    const events = this.#begin({ block: { type: 'text', text: '', citations: null } })
    return [...events, ...this.#addText(shown)]
  }

  #addThinking(thinking: string): MessageEvent[] {
    const events =
      this.#open?.block.type === 'thinking'
        ? []
        : this.#begin({ block: { type: 'thinking', thinking: '', signature: '' } })
    if (this.#open?.block.type === 'thinking') this.#open.block.thinking += thinking
    return [...events, this.#delta({ type: 'thinking_delta', thinking })]
  }

  #addCall(call: NonNullable<ChatDelta['tool_calls']>[number]): MessageEvent[] {
    this.#held = ''
    this.#hasCalls = true
    const events: MessageEvent[] = []
    if (this.#open === null || !('number' in this.#open) || this.#open.number !== call.index) {
      const block: ToolUse = {
        type: 'tool_use',
        id: call.id ?? this.#options.createId('toolu'),
        name: call.function.name ?? '',
        input: {},
        caller: { type: 'direct' },
      }
      append(events, this.#begin({ block, number: call.index, input: '' }))
    }
    const text = call.function.arguments ?? ''
    if (text === '' || this.#open === null || !('number' in this.#open)) return events
    this.#open.input += text
    return [...events, this.#delta({ type: 'input_json_delta', partial_json: text })]
  }

  /** A call that was asked for by name ends a message as any other does. */
  #end(reason: string, stop: string | number | null | undefined): Pick<Message, 'stop_reason' | 'stop_sequence'> {
    const isText = typeof stop === 'string'
    const others: StopReason = this.#hasCalls ? 'tool_use' : 'end_turn'
    if (reason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null }
    return isText ? { stop_reason: 'stop_sequence', stop_sequence: stop } : { stop_reason: others, stop_sequence: null }
  }
}

/** @param isCut the answer ended before the model ended it: no text is then no input, not an empty one */
function readInput(text: string, isCut: boolean): ToolUse['input'] {
  try {
    const input = parseExact(text === '' && !isCut ? '{}' : text)
    if (isJsonObject(input)) return input as ToolUse['input']
  } catch {
    // it is kept as it is
  }
  return { [INVALID_JSON]: text }
}

function toUsage(usage: Usage | null, thinkingTokens: number): Message['usage'] {
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
  return {
    input_tokens: (usage?.prompt_tokens ?? 0) - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage?.completion_tokens ?? 0,
    output_tokens_details: { thinking_tokens: thinkingTokens },
    cache_creation: null,
    inference_geo: null,
    server_tool_use: null,
    service_tier: 'standard',
    speed: null,
  }
}
