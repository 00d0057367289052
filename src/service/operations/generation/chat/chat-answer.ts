/**
 * Engine events → the wire's choices, logprobs and usage, for whole answers and for chunks, in vLLM's form
 * (v0.17). Knows nothing of engines or HTTP.
 */

import { append } from '#base/util/lists.js'
import {
  type ChatChoice,
  type ChatChunk,
  type ChatDelta,
  type ChatRequest,
  type ChatResponse,
  type ChoiceLogprobs,
  type PromptLogprobs,
  SCHEMA_VIOLATIONS,
  type Usage,
} from '#contract/wire/chat-completions.js'
import type { SamplingRecord } from '#contract/wire/sampling-record.js'
import type {
  AnswerFormat,
  DeltaEvent,
  PositionLogprobs,
  PromptEvent,
  PromptPosition,
  StartedEvent,
  TokenLogprob,
} from '#inference/host/protocol.js'
import { AnswerText, type TextPiece } from './answer-text.js'
import { AnswerTimer } from './answer-timer.js'
import type { AnswerOptions } from './chat-request.js'
import { createRecorders, type RepeatedSampling, type SamplingRecorder } from './sampling-recorder.js'
import type { FinishedChoice } from './schema-violations.js'

/** JSON has no minus infinity; vLLM sends this instead. */
const LOWEST_LOGPROB = -9999

/** How an answer ends that the model ended itself. */
const WHOLE: readonly (string | null)[] = ['stop', 'tool_calls', 'function_call']

/** What all objects of one answer share. */
export interface AnswerIdentity {
  readonly id: string
  readonly createdSeconds: number
  readonly model: string
  readonly fingerprint: string
}

interface ChoiceState {
  text: AnswerText
  readonly callIds: string[]
  readonly tokenIds: number[]
  readonly logprobs: NonNullable<ChoiceLogprobs['content']>
  finishReason: string | null
  stopReason: string | number | null
  violations: readonly string[] | null
  readonly recorder: SamplingRecorder
}

interface AnswerParts {
  /** What the engine was asked. */
  readonly sampling: RepeatedSampling
  readonly format: AnswerFormat
  /** Makes the ids of tool calls. */
  readonly createCallId: () => string
}

/** Collects the events of one answer. */
export interface AnswerBuilder {
  start(event: StartedEvent): void
  addPrompt(event: PromptEvent): void
  usage(): Usage
  response(): ChatResponse
  /** Chunks that open the stream: one per choice, with the role. */
  firstChunks(): readonly ChatChunk[]
  /** One delta: it joins the whole answer; the chunks that a stream sends for it, none while its text is held back. */
  add(event: DeltaEvent): readonly ChatChunk[]
  usageChunk(): ChatChunk
  /** The whole answer of one choice, as far as it is. One that a stop string or token of the request ended is cut: it lacks that end. */
  finished(choice: number): FinishedChoice & { readonly isCut: boolean }
  /** A choice that is over: its tokens, and its message whole and as streams showed it. */
  sampled(choice: number): {
    readonly tokenIds: readonly number[]
    readonly messages: readonly ChatRequest['messages'][number][]
  }
  /** What of its schema a choice violates: sent with it. */
  setViolations(choice: number, violations: readonly string[]): void
}

export function createAnswerBuilder(
  identity: AnswerIdentity,
  options: AnswerOptions,
  parts: AnswerParts,
): AnswerBuilder {
  return new ChatAnswer(identity, options, parts)
}

class ChatAnswer implements AnswerBuilder {
  readonly #identity: AnswerIdentity
  readonly #options: AnswerOptions
  readonly #parts: AnswerParts
  readonly #choices: ChoiceState[]
  #promptTokenIds: readonly number[] = []
  #cachedTokens = 0
  readonly #timer = new AnswerTimer()
  readonly #promptLogprobs: PromptLogprobs = []

  constructor(identity: AnswerIdentity, options: AnswerOptions, parts: AnswerParts) {
    this.#identity = identity
    this.#options = options
    this.#parts = parts
    this.#choices = createRecorders(options.n, parts.sampling, options).map((recorder) => ({
      text: new AnswerText(options.toolMode, parts.format, false),
      callIds: [],
      tokenIds: [],
      logprobs: [],
      finishReason: null,
      stopReason: null,
      violations: null,
      recorder,
    }))
  }

  usage(): Usage {
    const completionTokens = this.#choices.reduce((sum, choice) => sum + choice.tokenIds.length, 0)
    return {
      prompt_tokens: this.#promptTokenIds.length,
      total_tokens: this.#promptTokenIds.length + completionTokens,
      completion_tokens: completionTokens,
      prompt_tokens_details: { cached_tokens: this.#cachedTokens },
    }
  }

  addPrompt({ positions }: PromptEvent): void {
    for (const position of positions) this.#promptLogprobs.push(toPromptPosition(position))
  }

  start(event: StartedEvent): void {
    this.#timer.start(event.atMs)
    this.#promptTokenIds = event.promptTokenIds
    this.#cachedTokens = event.cachedTokens
    for (const choice of this.#choices)
      choice.text = new AnswerText(this.#options.toolMode, this.#parts.format, event.isReasoningOpen)
  }

  add(event: DeltaEvent): readonly ChatChunk[] {
    const state = this.#choices[event.choice]
    if (state === undefined) return []
    this.#timer.heard(event.atMs)
    const pieces = [state.text.push(event.text), ...(event.finishReason === null ? [] : [state.text.end()])]
    const entries = this.#options.hasLogprobs ? event.logprobs.map((entry) => toWireLogprob(entry, this.#options)) : []
    append(state.tokenIds, event.tokenIds)
    append(state.logprobs, entries)
    const sampling = state.recorder.add(event)
    const finishReason = this.#finishReasonOf(state, event.finishReason)
    if (finishReason !== null) {
      state.finishReason = finishReason
      state.stopReason = event.stopReason
    }
    const deltas = pieces.flatMap((piece) => this.#toDeltas(state, piece))
    const hasTokens = event.tokenIds.length > 0 && (this.#options.hasTokenIds || this.#options.hasLogprobs)
    if (deltas.length === 0 && (hasTokens || finishReason !== null)) deltas.push({ content: '' })
    // tokens belong to the step: they come with its first chunk, the end with its last
    return deltas.map((delta, number) => {
      const isFirst = number === 0
      const end = number === deltas.length - 1 ? finishReason : null
      const choice = {
        index: event.choice,
        delta,
        logprobs: isFirst && entries.length > 0 ? { content: entries } : null,
        finish_reason: end,
        ...(end === null ? {} : { stop_reason: event.stopReason }),
        token_ids: this.#options.hasTokenIds ? (isFirst ? [...event.tokenIds] : []) : null,
        ...(isFirst ? withSampling(sampling) : {}),
      }
      return this.#chunkOf([choice], end !== null)
    })
  }

  response(): ChatResponse {
    return {
      id: this.#identity.id,
      object: 'chat.completion',
      created: this.#identity.createdSeconds,
      model: this.#identity.model,
      choices: this.#choices.map((state, index) => this.#toChoice(state, index)),
      service_tier: null,
      system_fingerprint: this.#identity.fingerprint,
      usage: this.usage(),
      prompt_logprobs: this.#options.hasPromptLogprobs ? this.#promptLogprobs : null,
      prompt_token_ids: this.#options.hasTokenIds ? [...this.#promptTokenIds] : null,
      kv_transfer_params: null,
      ...(this.#options.timings === 'none' ? {} : { timings: this.#timer.timings(this.usage()) }),
    }
  }

  firstChunks(): readonly ChatChunk[] {
    const chunkWith = (index: number, delta: ChatDelta): ChatChunk =>
      this.#chunkOf([{ index, delta, logprobs: null, finish_reason: null }])
    const { echo } = this.#options
    return this.#choices.flatMap((_, index) => [
      {
        ...chunkWith(index, { role: this.#options.role, content: '' }),
        prompt_token_ids: this.#options.hasTokenIds ? [...this.#promptTokenIds] : null,
      },
      ...(echo === null || echo === '' ? [] : [chunkWith(index, { content: echo })]),
    ])
  }

  usageChunk(): ChatChunk {
    return { ...this.#chunkOf([], true), usage: this.usage() }
  }

  finished(choice: number): FinishedChoice & { readonly isCut: boolean } {
    const state = this.#stateOf(choice)
    const { content, calls } = state.text.whole(isCut(state))
    return { content, calls, isCut: isCut(state) || state.stopReason !== null }
  }

  sampled(choice: number): {
    readonly tokenIds: readonly number[]
    readonly messages: readonly ChatRequest['messages'][number][]
  } {
    const state = this.#stateOf(choice)
    const messages = [state.text.whole(isCut(state)), state.text.shown()].map(({ content, reasoning, calls }) => ({
      role: this.#options.role,
      content,
      reasoning,
      tool_calls: calls.map((call, number) => ({
        ...(this.#options.isFunctionForm ? {} : { id: this.#callId(state, number) }),
        function: call,
      })),
    }))
    return { tokenIds: [...state.tokenIds], messages }
  }

  setViolations(choice: number, violations: readonly string[]): void {
    this.#stateOf(choice).violations = violations
  }

  /** @param isLast the chunk ends a choice or the stream */
  #chunkOf(content: ChatChunk['choices'], isLast = false): ChatChunk {
    const hasTimings = this.#options.timings === 'each' || (this.#options.timings === 'end' && isLast)
    return {
      id: this.#identity.id,
      object: 'chat.completion.chunk',
      created: this.#identity.createdSeconds,
      model: this.#identity.model,
      system_fingerprint: this.#identity.fingerprint,
      choices: content,
      ...(this.#options.continuousUsage ? { usage: this.usage() } : {}),
      ...(hasTimings ? { timings: this.#timer.timings(this.usage()) } : {}),
    }
  }

  #stateOf(choice: number): ChoiceState {
    const state = this.#choices[choice]
    if (state === undefined) throw new Error(`the answer has no choice ${choice}`)
    return state
  }

  #callId(state: ChoiceState, index: number): string {
    state.callIds[index] ??= this.#parts.createCallId()
    return state.callIds[index]
  }

  #toChoice(state: ChoiceState, index: number): ChatChoice {
    const { content, reasoning, calls } = state.text.whole(isCut(state))
    const shown = this.#options.includesReasoning ? reasoning : null
    const called = this.#options.isFunctionForm ? (calls[0] ?? null) : null
    const said = called === null || content !== '' ? content : null
    return {
      index,
      message: {
        role: this.#options.role,
        content: this.#options.echo === null ? said : this.#options.echo + (said ?? ''),
        refusal: null,
        annotations: null,
        audio: null,
        function_call: called === null ? null : { ...called },
        tool_calls: this.#options.isFunctionForm
          ? []
          : calls.map((call, number) => ({ id: this.#callId(state, number), type: 'function', function: call })),
        reasoning: shown,
        reasoning_content: shown,
      },
      logprobs: this.#options.hasLogprobs ? { content: state.logprobs, refusal: null } : null,
      finish_reason: state.finishReason,
      stop_reason: state.stopReason,
      token_ids: this.#options.hasTokenIds ? state.tokenIds : null,
      ...withSampling(state.recorder.whole()),
      ...(state.violations === null ? {} : { [SCHEMA_VIOLATIONS]: [...state.violations] }),
    }
  }

  /** What a stream shows of one piece of text: reasoning, content and each call in a chunk of its own. */
  #toDeltas(state: ChoiceState, piece: TextPiece): ChatDelta[] {
    const { reasoning, content, calls } = piece
    const deltas: ChatDelta[] = []
    if (reasoning !== '' && this.#options.includesReasoning) deltas.push({ reasoning, reasoning_content: reasoning })
    if (content !== '') deltas.push({ content })
    for (const { index, name, arguments: given } of calls) {
      const called = { ...(name === null ? {} : { name }), arguments: given }
      if (this.#options.isFunctionForm) {
        deltas.push({ function_call: called })
        continue
      }
      const head = name === null ? {} : { id: this.#callId(state, index), type: 'function' as const }
      deltas.push({ tool_calls: [{ index, ...head, function: called }] })
    }
    return deltas
  }

  /** vLLM's rule: a call that was not asked for by name ends the turn with `tool_calls`, unless the budget ended it. */
  #finishReasonOf(state: ChoiceState, reason: DeltaEvent['finishReason']): string | null {
    const { kind } = this.#options.toolMode
    const isCall = reason === 'stop' && (kind === 'auto' || kind === 'required') && state.text.callCount > 0
    return isCall ? (this.#options.isFunctionForm ? 'function_call' : 'tool_calls') : reason
  }
}

function isCut({ finishReason }: ChoiceState): boolean {
  return !WHOLE.includes(finishReason)
}

function withSampling(sampling: SamplingRecord | undefined): Pick<ChatChoice, 'sampling'> {
  return sampling === undefined ? {} : { sampling }
}

/** One position: the sampled token, then the first alternatives of "sampled first, the rest by rank", and the tokens that were asked for. */
export function toWireLogprob(
  entry: PositionLogprobs,
  options: Pick<AnswerOptions, 'isTokenAsId' | 'isAlternativeAsId' | 'topLogprobs' | 'logprobTokenIds'>,
): NonNullable<ChoiceLogprobs['content']>[number] {
  const all = [entry, ...entry.top.filter((other) => other.id !== entry.id)]
  const asked = new Set(options.logprobTokenIds)
  const ranked = all.filter((other, place) => place < options.topLogprobs || asked.has(other.id))
  return {
    token: options.isTokenAsId ? `token_id:${entry.id}` : entry.text,
    logprob: floor(entry.logprob),
    // the token's own bytes, also when it is shown as its id or is a part of a character
    bytes: [...entry.bytes],
    top_logprobs: ranked.map((other) => ({
      token: options.isAlternativeAsId ? `token_id:${other.id}` : other.id === entry.id ? entry.text : spelled(other),
      logprob: floor(other.logprob),
      bytes: [...other.bytes],
    })),
  }
}

/** A token as a text: bytes that are none (a part of a character) as OpenAI spells them, `\\xe2\\x80`. */
export function spelled({ text, bytes }: Pick<TokenLogprob, 'text' | 'bytes'>): string {
  if (Buffer.from(text, 'utf8').equals(Uint8Array.from(bytes))) return text
  return bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
}

/** @param count alternatives that are shown of each position */
export function toPromptLogprobs(positions: readonly PromptPosition[], count: number): PromptLogprobs {
  return positions.map((position) => toPromptPosition({ ...position, top: position.top.slice(0, count) }))
}

/** The alternatives by rank, and the token itself if it is not among them; equals share a rank. */
function toPromptPosition(position: PromptPosition): PromptLogprobs[number] {
  const { top } = position
  // the first token has nothing before it
  if (position.logprob === null) return null
  const entries = top.map((other) => {
    const rank = top.findIndex(({ logprob }) => logprob === other.logprob) + 1
    return [String(other.id), { logprob: floor(other.logprob), rank, decoded_token: other.text }]
  })
  const own = { logprob: floor(position.logprob), rank: position.rank, decoded_token: position.text }
  return Object.fromEntries([[String(position.id), own], ...entries])
}

function floor(logprob: number): number {
  return Math.max(LOWEST_LOGPROB, logprob)
}
