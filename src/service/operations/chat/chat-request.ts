/**
 * A chat request → the command the engine host runs. Ranges, combinations and the words of their errors follow vLLM
 * (v0.17); defaults are neutral (temperature 1, top_p 1, nothing else).
 *
 * Differences from vLLM, on purpose: `continue_final_message` with `add_generation_prompt` omitted means false for the
 * latter. Fields this version cannot honour are refused when they ask for something (`chat-unsupported.ts`).
 */

import type { ChatRequest } from '#api/wire/chat-completions.js'
import { type AppError, InvalidRequestError } from '#base/errors.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type {
  ChatMessage,
  ConversationInput,
  GenerateOptions,
  GrammarSpec,
  SamplingParameters,
} from '#inference/host/protocol.js'
import type { ToolMode } from './answer-text.js'
import { checkMessages } from './chat-messages.js'
import { refuseUnsupported } from './chat-unsupported.js'
import { toGrammar } from './structured-outputs.js'
import { toToolUse } from './tool-choice.js'

/** Most choices of one request. */
export const MAX_CHOICES = 128
/** Most alternatives per position, as vLLM's `--max-logprobs`. */
export const MAX_TOP_LOGPROBS = 20
/** Most stop strings, stop token ids and characters of one stop string. */
export const MAX_STOP_ITEMS = 256
const MAX_STOP_CHARACTERS = 4096

const TEMPLATE_REFUSED =
  'Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template.'
/** Variables a template gets from us: a request cannot replace them. */
const RESERVED_KWARGS = [
  'messages',
  'tools',
  'documents',
  'add_generation_prompt',
  'continue_final_message',
  'tokenize',
]

/** What shapes the answer besides the engine's own events. */
export interface AnswerOptions {
  readonly n: number
  readonly role: string
  /** Logprobs are sent, with `topLogprobs` alternatives. */
  readonly hasLogprobs: boolean
  readonly topLogprobs: number
  /** Token texts are `token_id:<id>`. */
  readonly isTokenAsId: boolean
  /** `prompt_token_ids` and `token_ids` are sent. */
  readonly hasTokenIds: boolean
  readonly isStream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
  readonly toolMode: ToolMode
  readonly includesReasoning: boolean
}

export type EngineCommand = Omit<GenerateOptions, 'id' | 'adapter'> & ConversationInput

/** @throws {AppError} naming the field in `param` */
export function toEngineCommand(request: ChatRequest, isTrainable: boolean): EngineCommand {
  refuseUnsupported(request)
  const conversation = toConversation(request)
  const toolUse = toToolUse(request)
  const salt = request.cache_salt ?? null
  if (salt === '') {
    throw invalid('cache_salt', "Parameter 'cache_salt' must be a non-empty string if provided.")
  }
  return {
    ...conversation,
    truncatePromptTokens: toTruncation(request),
    sampling: toSampling(request, toolUse.mode, isTrainable),
    grammar: toOneGrammar(toolUse.grammar, toGrammar(request)),
    cacheSalt: salt,
  }
}

/** What the chat template gets of a request. @throws {AppError} naming the field in `param` */
export function toConversation(request: ChatRequest): ConversationInput {
  return {
    messages: checkMessages(request.messages) as readonly ChatMessage[],
    tools: request.tools == null || request.tools.length === 0 ? null : (request.tools as readonly JsonValue[]),
    template: toTemplate(request),
  }
}

/** An answer is held to one thing: a tool's schema and another constraint cannot both be met. */
function toOneGrammar(ofTools: GrammarSpec | null, ofOutput: GrammarSpec | null): GrammarSpec | null {
  if (ofTools === null || ofOutput === null) return ofTools ?? ofOutput
  throw invalid('structured_outputs', 'You can only either use constraints for structured outputs or tools, not both.')
}

/** @param isTrainable the request goes to a trainable model, whose callers always need exact tokens */
export function toAnswerOptions(request: ChatRequest, isTrainable: boolean): AnswerOptions {
  const isStream = request.stream === true
  const streamOptions = request.stream_options ?? null
  if (!isStream && streamOptions !== null && Object.keys(streamOptions).length > 0) {
    throw invalid('stream_options', 'Stream options can only be defined when `stream=True`.')
  }
  const includeUsage = streamOptions?.include_usage === true
  const lastRole = request.messages.at(-1)?.role ?? 'assistant'
  return {
    n: request.n ?? 1,
    role: isGenerationPromptAdded(request) ? 'assistant' : lastRole,
    hasLogprobs: request.logprobs ?? isTrainable,
    topLogprobs: checkTopLogprobs(request, isTrainable),
    isTokenAsId: request.return_tokens_as_token_ids ?? isTrainable,
    hasTokenIds: request.return_token_ids ?? isTrainable,
    isStream,
    includeUsage,
    continuousUsage: includeUsage && streamOptions?.continuous_usage_stats === true,
    toolMode: toToolUse(request).mode,
    includesReasoning: request.include_reasoning ?? true,
  }
}

function toTemplate(request: ChatRequest): ConversationInput['template'] {
  const isContinued = request.continue_final_message === true
  if (isContinued && request.add_generation_prompt === true) {
    throw invalid(
      'continue_final_message',
      'Cannot set both `continue_final_message` and `add_generation_prompt` to True.',
    )
  }
  const kwargs = (request.chat_template_kwargs ?? {}) as JsonObject
  if ((request.chat_template ?? null) !== null || (kwargs['chat_template'] ?? null) !== null) {
    throw invalid('chat_template', TEMPLATE_REFUSED)
  }
  for (const name of RESERVED_KWARGS) {
    if (Object.hasOwn(kwargs, name)) {
      throw invalid('chat_template_kwargs', `chat_template_kwargs must not set "${name}".`)
    }
  }
  const effort = request.reasoning_effort ?? null
  return {
    addGenerationPrompt: isGenerationPromptAdded(request),
    continueFinalMessage: isContinued,
    addSpecialTokens: request.add_special_tokens === true,
    kwargs: effort === null ? kwargs : { reasoning_effort: effort, ...kwargs },
    documents: (request.documents ?? null) as readonly JsonValue[] | null,
  }
}

function isGenerationPromptAdded(request: ChatRequest): boolean {
  return request.add_generation_prompt ?? request.continue_final_message !== true
}

/** @throws {AppError} naming the field in `param` */
export function toSampling(request: ChatRequest, toolMode: ToolMode, isTrainable: boolean): SamplingParameters {
  const temperature = ranged('temperature', request.temperature ?? 1, (v) => v >= 0, 'must be non-negative')
  const n = request.n ?? 1
  if (n < 1) throw invalid('n', `n must be at least 1, got ${n}.`)
  if (n > MAX_CHOICES) throw invalid('n', `n must be at most ${MAX_CHOICES}, got ${n}.`)
  if (n > 1 && temperature < 1e-5) throw invalid('n', `n must be 1 when using greedy sampling, got ${n}.`)
  const topK = request.top_k ?? 0
  if (topK < -1) throw invalid('top_k', `top_k must be 0 (disable), or at least 1, got ${topK}.`)
  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? null
  if (maxTokens !== null && maxTokens < 1) {
    const field = request.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens'
    throw invalid(field, `max_tokens must be at least 1, got ${maxTokens}.`)
  }
  const minTokens = request.min_tokens ?? 0
  if (minTokens < 0) throw invalid('min_tokens', `min_tokens must be greater than or equal to 0, got ${minTokens}.`)
  if (maxTokens !== null && minTokens > maxTokens) {
    throw invalid('min_tokens', `min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`)
  }
  return {
    // as vLLM: a tiny temperature would overflow the logits
    temperature: temperature > 1e-5 && temperature < 0.01 ? 0.01 : temperature,
    topP: ranged('top_p', request.top_p ?? 1, (v) => v > 0 && v <= 1, 'must be in (0, 1]'),
    topK: topK === -1 ? 0 : topK,
    minP: ranged('min_p', request.min_p ?? 0, (v) => v >= 0 && v <= 1, 'must be in [0, 1]'),
    repetitionPenalty: ranged(
      'repetition_penalty',
      request.repetition_penalty ?? 1,
      (v) => v > 0,
      'must be greater than zero',
    ),
    frequencyPenalty: ranged(
      'frequency_penalty',
      request.frequency_penalty ?? 0,
      (v) => Math.abs(v) <= 2,
      'must be in [-2, 2]',
    ),
    presencePenalty: ranged(
      'presence_penalty',
      request.presence_penalty ?? 0,
      (v) => Math.abs(v) <= 2,
      'must be in [-2, 2]',
    ),
    logitBias: toLogitBias(request.logit_bias ?? null),
    allowedTokenIds: request.allowed_token_ids == null ? null : [...new Set(request.allowed_token_ids)],
    seed: request.seed ?? null,
    n,
    maxTokens,
    minTokens,
    stop: toStop(request.stop ?? []),
    stopTokenIds: toStopTokenIds(request.stop_token_ids ?? []),
    includeStopStrInOutput: request.include_stop_str_in_output === true,
    ignoreEos: request.ignore_eos === true,
    // the marks of a call may be special tokens
    skipSpecialTokens: toolMode.kind !== 'auto' && (request.skip_special_tokens ?? true),
    topLogprobs: checkTopLogprobs(request, isTrainable),
  }
}

function toStop(stop: string | readonly string[]): readonly string[] {
  const list = typeof stop === 'string' ? [stop] : stop
  if (list.some((text) => text === '')) throw invalid('stop', 'stop cannot contain an empty string.')
  if (list.length > MAX_STOP_ITEMS) {
    throw invalid('stop', `stop must hold at most ${MAX_STOP_ITEMS} strings, got ${list.length}.`)
  }
  if (list.some((text) => text.length > MAX_STOP_CHARACTERS)) {
    throw invalid('stop', `a stop string must have at most ${MAX_STOP_CHARACTERS} characters.`)
  }
  return list
}

function toLogitBias(bias: Readonly<Record<string, number>> | null): Readonly<Record<string, number>> | null {
  const bad = Object.keys(bias ?? {}).filter((key) => !/^\d{1,10}$/.test(key))
  if (bad.length === 0) return bias
  const listed = bad.slice(0, 20).map((key) => `'${key.slice(0, 40)}'`)
  throw invalid(
    'logit_bias',
    `logit_bias contains key(s) that cannot be converted to integer token IDs: [${listed.join(', ')}]`,
  )
}

function toStopTokenIds(ids: readonly number[]): readonly number[] {
  if (ids.length > MAX_STOP_ITEMS) {
    throw invalid('stop_token_ids', `stop_token_ids must hold at most ${MAX_STOP_ITEMS} ids, got ${ids.length}.`)
  }
  return ids
}

function checkTopLogprobs(request: ChatRequest, isTrainable: boolean): number {
  const top = request.top_logprobs ?? 0
  if (top === 0) return 0
  if (top < -1) throw invalid('top_logprobs', '`top_logprobs` must be a positive value or -1.')
  if (!(request.logprobs ?? isTrainable)) {
    throw invalid('top_logprobs', 'when using `top_logprobs`, `logprobs` must be set to true.')
  }
  if (top > MAX_TOP_LOGPROBS || top === -1) {
    throw invalid(
      'top_logprobs',
      `Requested sample logprobs of ${top}, which is greater than max allowed: ${MAX_TOP_LOGPROBS}`,
    )
  }
  return top
}

/** How many of the prompt's last tokens are kept, as `truncatePromptTokens`. */
export function toTruncation(request: ChatRequest): number | null {
  const value = request.truncate_prompt_tokens ?? null
  if (value === null) return null
  if (value === 0n) throw invalid('truncate_prompt_tokens', 'truncate_prompt_tokens must be -1 or at least 1, got 0.')
  // beyond 2^53 no context is that long: the engine's own limit refuses it with its words
  return Number(value)
}

function ranged(field: string, value: number, isInside: (value: number) => boolean, expectation: string): number {
  if (!isInside(value)) throw invalid(field, `${field} ${expectation}, got ${value}.`)
  return value
}

function invalid(param: string, message: string): AppError {
  return new InvalidRequestError('invalid_value', message, { param })
}
