/**
 * A completion request → what the engine host runs for each prompt, and what the answer shows.
 *
 * Sampling is that of chat. Differences from vLLM, on purpose: `max_tokens` may be 0, as OpenAI's was (an echoed prompt is
 * scored and nothing is generated); `best_of` works.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { maxOf } from '#base/util/lists.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import type { CompletionPrompt, CompletionRequest } from '#contract/wire/inference/completions.js'
import type { GenerateOptions, RawInput, SamplingParameters } from '#inference/host/protocol.js'
import type { ChatRules } from '../../context.js'
import { toPriority, toTruncation } from '../chat/chat-request.js'
import { checkPromptLogprobs, MAX_CHOICES, MAX_TOP_LOGPROBS, toSampling } from '../chat/chat-sampling.js'
import { grammarField, toGrammar } from '../chat/structured-outputs.js'

/** Most choices of all prompts of one request together. */
const MAX_TOTAL_CHOICES = 4096
/** OpenAI's default of this endpoint, and vLLM's. */
const DEFAULT_MAX_TOKENS = 16

/** What shapes the answer besides the engine's own events. */
export interface CompletionOptions {
  /** Choices shown of each prompt. */
  readonly n: number
  /** Choices generated of each prompt; the `n` most likely ones are shown. */
  readonly bestOf: number
  readonly isEchoed: boolean
  /** Alternatives per position; null: log-probabilities are not sent. */
  readonly logprobs: number | null
  /** Alternatives per position of the prompt, in a field of their own; null: not sent. */
  readonly promptLogprobs: number | null
  /** Token texts are `token_id:<id>`. */
  readonly isTokenAsId: boolean
  readonly hasTokenIds: boolean
  readonly isStream: boolean
  readonly includeUsage: boolean
  readonly continuousUsage: boolean
}

/** Everything of a command but its id and adapter. */
export type CompletionCommand = Omit<GenerateOptions, 'id' | 'adapter'> & RawInput

export interface CompletionPlan {
  readonly commands: readonly CompletionCommand[]
  /** Of all of them. */
  readonly sampling: SamplingParameters
  readonly options: CompletionOptions
}

/** @throws {AppError} naming the field in `param` */
export function toCompletionPlan(request: CompletionRequest, rules: ChatRules): CompletionPlan {
  if ((request.suffix ?? '') !== '') throw invalid('suffix', 'suffix is not currently supported')
  const options = toOptions(request)
  const chat = asChat(request, options)
  const sampling = toSampling(chat, { kind: 'none' }, false)
  const maxTokens = request.max_tokens === 0 ? 0 : sampling.maxTokens
  // an echo with log-probabilities shows those of the prompt too
  const scored = [options.promptLogprobs, options.isEchoed ? options.logprobs : null].filter((count) => count !== null)
  const grammar = toGrammar(chat)
  if (grammar !== null && request.use_beam_search === true) {
    throw invalid('use_beam_search', 'use_beam_search cannot be combined with structured outputs.')
  }
  const command = {
    sampling: {
      ...sampling,
      maxTokens,
      // the best of several are told by them
      hasLogprobs: options.logprobs !== null || sampling.n > options.n,
      topLogprobs: options.logprobs ?? 0,
      promptLogprobs: scored.length === 0 ? null : maxOf(scored),
    },
    truncatePromptTokens: toTruncation(chat),
    grammar,
    ...(grammar === null ? {} : { grammarParam: grammarField(chat) }),
    cacheSalt: toCacheSalt(request),
    echoesPrompt: options.isEchoed,
    priority: toPriority(request, rules),
  }
  const isBare = (prompt: CompletionPrompt): boolean => prompt.length === 0
  const empty = request.prompt.findIndex(isBare)
  if (empty >= 0) {
    const field = request.prompt.length === 1 ? 'prompt' : `prompt[${empty}]`
    throw invalid(field, 'Either prompt or prompt token ids must hold at least one token, got none.')
  }
  const addSpecialTokens = request.add_special_tokens ?? true
  const commands = request.prompt.map((prompt) => ({
    ...command,
    prompt: typeof prompt === 'string' ? { text: prompt, addSpecialTokens } : { tokenIds: prompt },
  }))
  return { commands, sampling: command.sampling, options }
}

/** The part that both kinds of request have, in chat's words. */
function asChat(request: CompletionRequest, { bestOf }: CompletionOptions): ChatRequest {
  const { prompt: _, logprobs: __, echo: ___, suffix: ____, best_of: _____, ...shared } = request
  const maxTokens = request.max_tokens ?? DEFAULT_MAX_TOKENS
  // zero is this endpoint's own, and has no minimum
  return { ...shared, messages: [], n: bestOf, max_tokens: maxTokens === 0 ? null : maxTokens }
}

function toOptions(request: CompletionRequest): CompletionOptions {
  const n = request.n ?? 1
  const bestOf = request.best_of ?? n
  const isStream = request.stream === true
  if (bestOf < n)
    throw invalid('best_of', `best_of must be greater than or equal to n, got n=${n} and best_of=${bestOf}.`)
  if (bestOf > n && isStream)
    throw invalid('best_of', 'best_of must equal n when streaming: what is best is known at the end.')
  if (bestOf > MAX_CHOICES) throw invalid('best_of', `best_of must be at most ${MAX_CHOICES}, got ${bestOf}.`)
  const total = request.prompt.length * bestOf
  if (total > MAX_TOTAL_CHOICES) {
    throw invalid(
      'prompt',
      `a request may have at most ${MAX_TOTAL_CHOICES} choices of all prompts together, got ${total}.`,
    )
  }
  const streamOptions = request.stream_options ?? null
  if (!isStream && streamOptions !== null && Object.keys(streamOptions).length > 0) {
    throw invalid('stream_options', 'Stream options can only be defined when `stream=True`.')
  }
  const includeUsage = streamOptions?.include_usage === true
  return {
    n,
    bestOf,
    isEchoed: request.echo === true,
    logprobs: toLogprobs(request.logprobs ?? null),
    promptLogprobs: checkPromptLogprobs({ prompt_logprobs: request.prompt_logprobs, stream: request.stream }),
    isTokenAsId: request.return_tokens_as_token_ids === true,
    hasTokenIds: request.return_token_ids === true,
    isStream,
    includeUsage,
    continuousUsage: includeUsage && streamOptions?.continuous_usage_stats === true,
  }
}

function toLogprobs(logprobs: number | null): number | null {
  if (logprobs !== null && logprobs < 0) throw invalid('logprobs', '`logprobs` must be a positive value.')
  if (logprobs !== null && logprobs > MAX_TOP_LOGPROBS) {
    throw invalid(
      'logprobs',
      `Requested sample logprobs of ${logprobs}, which is greater than max allowed: ${MAX_TOP_LOGPROBS}`,
    )
  }
  return logprobs
}

function toCacheSalt(request: CompletionRequest): string | null {
  const salt = request.cache_salt ?? null
  if (salt === '') throw invalid('cache_salt', "Parameter 'cache_salt' must be a non-empty string if provided.")
  return salt
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
