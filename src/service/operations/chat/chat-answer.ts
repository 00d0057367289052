/**
 * Engine events → the wire's choices, logprobs and usage, for whole answers and for chunks, in vLLM's form
 * (v0.17). Knows nothing of engines or HTTP.
 */

import type { ChatChoice, ChatChunk, ChatResponse, ChoiceLogprobs, Usage } from '#api/wire/chat-completions.js'
import type { DeltaEvent, PositionLogprobs, StartedEvent } from '#inference/host/protocol.js'
import type { AnswerOptions } from './chat-request.js'

/** JSON has no minus infinity; vLLM sends this instead. */
const LOWEST_LOGPROB = -9999

/** What all objects of one answer share. */
export interface AnswerIdentity {
  readonly id: string
  readonly createdSeconds: number
  readonly model: string
  readonly fingerprint: string
}

interface ChoiceState {
  text: string
  readonly tokenIds: number[]
  readonly logprobs: NonNullable<ChoiceLogprobs['content']>
  finishReason: string | null
  stopReason: string | number | null
}

/** Collects the events of one answer. */
export interface AnswerBuilder {
  start(event: StartedEvent): void
  add(event: DeltaEvent): void
  usage(): Usage
  response(): ChatResponse
  /** Chunks that open the stream: one per choice, with the role. */
  firstChunks(): readonly ChatChunk[]
  /** The chunk of one delta, or null while its text is held back and nothing else is to be sent. */
  chunk(event: DeltaEvent): ChatChunk | null
  usageChunk(): ChatChunk
}

export function createAnswerBuilder(identity: AnswerIdentity, options: AnswerOptions): AnswerBuilder {
  const choices: ChoiceState[] = Array.from({ length: options.n }, () => ({
    text: '',
    tokenIds: [],
    logprobs: [],
    finishReason: null,
    stopReason: null,
  }))
  let promptTokenIds: readonly number[] = []
  let cachedTokens = 0

  function usage(): Usage {
    const completionTokens = choices.reduce((sum, choice) => sum + choice.tokenIds.length, 0)
    return {
      prompt_tokens: promptTokenIds.length,
      total_tokens: promptTokenIds.length + completionTokens,
      completion_tokens: completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens },
    }
  }

  function chunkOf(content: ChatChunk['choices']): ChatChunk {
    return {
      id: identity.id,
      object: 'chat.completion.chunk',
      created: identity.createdSeconds,
      model: identity.model,
      system_fingerprint: identity.fingerprint,
      choices: content,
      ...(options.continuousUsage ? { usage: usage() } : {}),
    }
  }

  function toChoice(state: ChoiceState, index: number): ChatChoice {
    return {
      index,
      message: {
        role: options.role,
        content: state.text,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: [],
        reasoning: null,
        reasoning_content: null,
      },
      logprobs: options.hasLogprobs ? { content: state.logprobs, refusal: null } : null,
      finish_reason: state.finishReason,
      stop_reason: state.stopReason,
      token_ids: options.hasTokenIds ? state.tokenIds : null,
    }
  }

  return {
    usage,
    start: (event) => {
      promptTokenIds = event.promptTokenIds
      cachedTokens = event.cachedTokens
    },
    add: (event) => {
      const state = choices[event.choice]
      if (state === undefined) return
      state.text += event.text
      state.tokenIds.push(...event.tokenIds)
      if (options.hasLogprobs) state.logprobs.push(...event.logprobs.map((entry) => toWireLogprob(entry, options)))
      if (event.finishReason !== null) {
        state.finishReason = event.finishReason
        state.stopReason = event.stopReason
      }
    },
    response: () => ({
      id: identity.id,
      object: 'chat.completion',
      created: identity.createdSeconds,
      model: identity.model,
      choices: choices.map(toChoice),
      service_tier: null,
      system_fingerprint: identity.fingerprint,
      usage: usage(),
      prompt_logprobs: null,
      prompt_token_ids: options.hasTokenIds ? [...promptTokenIds] : null,
      kv_transfer_params: null,
    }),
    firstChunks: () =>
      choices.map((_, index) => ({
        ...chunkOf([{ index, delta: { role: options.role, content: '' }, logprobs: null, finish_reason: null }]),
        prompt_token_ids: options.hasTokenIds ? [...promptTokenIds] : null,
      })),
    chunk: (event) => {
      const isSilent = event.text === '' && event.finishReason === null
      const hasTokens = event.tokenIds.length > 0 && (options.hasTokenIds || options.hasLogprobs)
      if (isSilent && !hasTokens) return null
      const entries = event.logprobs.map((entry) => toWireLogprob(entry, options))
      return chunkOf([
        {
          index: event.choice,
          delta: { content: event.text },
          logprobs: options.hasLogprobs && entries.length > 0 ? { content: entries } : null,
          finish_reason: event.finishReason,
          ...(event.finishReason === null ? {} : { stop_reason: event.stopReason }),
          token_ids: options.hasTokenIds ? [...event.tokenIds] : null,
        },
      ])
    },
    usageChunk: () => ({ ...chunkOf([]), usage: usage() }),
  }
}

/** One position: the sampled token, then the first alternatives of "sampled first, the rest by rank". */
export function toWireLogprob(
  entry: PositionLogprobs,
  options: Pick<AnswerOptions, 'isTokenAsId' | 'topLogprobs'>,
): NonNullable<ChoiceLogprobs['content']>[number] {
  const ranked = [entry, ...entry.top.filter((other) => other.id !== entry.id)].slice(0, options.topLogprobs)
  return {
    token: options.isTokenAsId ? `token_id:${entry.id}` : entry.text,
    logprob: floor(entry.logprob),
    // the real text's bytes even when the token is shown as its id
    bytes: [...entry.bytes],
    top_logprobs: ranked.map((other) => {
      const token = options.isTokenAsId ? `token_id:${other.id}` : other.text
      return {
        token,
        logprob: floor(other.logprob),
        bytes: options.isTokenAsId ? [...Buffer.from(token, 'utf8')] : [...other.bytes],
      }
    }),
  }
}

function floor(logprob: number): number {
  return Math.max(LOWEST_LOGPROB, logprob)
}
