/**
 * The sampling fields of a chat request → the parameters of a generation, ranges and combinations checked.
 *
 * Words of the errors and neutral defaults are vLLM's (v0.17); DRY, XTC and biases of texts are llama.cpp's.
 */

import { type AppError, InvalidRequestError } from '#base/errors/errors.js'
import { appliedTemperature } from '#base/sampling-record.js'
import {
  type ChatRequest,
  SAMPLER_DEFAULTS,
  type SamplerExtensions,
  samplerExtensionsSchema,
} from '#contract/wire/chat-completions.js'
import type { SamplingParameters } from '#inference/host/protocol.js'
import type { ToolMode } from './answer-text.js'

/** Most choices of one request. */
export const MAX_CHOICES = 128
/** As in vLLM. */
const MAX_LOGPROB_TOKENS = 128
/** Most alternatives per position, as vLLM's `--max-logprobs`. */
export const MAX_TOP_LOGPROBS = 20
/** Most stop strings, stop token ids, bad words and biased texts, and characters of one of them. */
export const MAX_STOP_ITEMS = 256
const MAX_STOP_CHARACTERS = 4096
/** Finding the tokens of a breaker reads the vocabulary. */
const MAX_BREAKERS = 32
const MAX_BREAKER_CHARACTERS = 40
/** Widest beam search. */
const MAX_BEAMS = 16

/** @throws {InvalidRequestError} naming the field */
export function toSampling(request: ChatRequest, toolMode: ToolMode, isTrainable: boolean): SamplingParameters {
  const temperature = appliedTemperature(
    ranged('temperature', request.temperature ?? 1, (v) => v >= 0, 'must be non-negative'),
  )
  const n = request.n ?? 1
  if (n < 1) throw invalid('n', `n must be at least 1, got ${n}.`)
  if (n > MAX_CHOICES) throw invalid('n', `n must be at most ${MAX_CHOICES}, got ${n}.`)
  const beam = toBeam(request)
  if (n > 1 && temperature === 0 && beam === null)
    throw invalid('n', `n must be 1 when using greedy sampling, got ${n}.`)
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
    temperature,
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
    ...toLogitBias(request.logit_bias ?? null),
    allowedTokenIds: request.allowed_token_ids == null ? null : [...new Set(request.allowed_token_ids)],
    // the published bounds are those of a double: a little beyond 64 bits, which is what engines take
    seed: request.seed == null ? null : BigInt.asIntN(64, request.seed),
    n,
    maxTokens,
    minTokens,
    stop: toStop(request.stop ?? []),
    stopTokenIds: toStopTokenIds(request.stop_token_ids ?? []),
    includeStopStrInOutput: request.include_stop_str_in_output === true,
    ignoreEos: request.ignore_eos === true,
    // the marks of a call may be special tokens
    skipSpecialTokens: toolMode.kind !== 'auto' && (request.skip_special_tokens ?? true),
    hasLogprobs: request.logprobs ?? isTrainable,
    // they are of use where the tokens are known
    recordsDraws: request.return_token_ids ?? isTrainable,
    topLogprobs: checkTopLogprobs(request, isTrainable),
    logprobTokenIds: toLogprobTokenIds(request, isTrainable),
    promptLogprobs: checkPromptLogprobs(request),
    badWords: toBadWords(request.bad_words ?? []),
    repetition: toRepetition(request),
    ...toExtensions(request),
    beam,
  }
}

function toStop(stop: string | readonly string[]): readonly string[] {
  const list = typeof stop === 'string' ? [stop] : stop
  if (list.some((text) => text === '')) throw invalid('stop', 'stop cannot contain an empty string.')
  checkTexts('stop', list)
  return list
}

type Bias = Pick<SamplingParameters, 'logitBias' | 'textBias'>

function toLogitBias(bias: NonNullable<ChatRequest['logit_bias']> | null): Bias {
  if (bias === null) return { logitBias: null }
  if (Array.isArray(bias)) return toBiasList(bias)
  const bad = Object.keys(bias).filter((key) => !TOKEN_ID.test(key))
  if (bad.length === 0) return { logitBias: bias }
  const listed = bad.slice(0, 20).map((key) => `'${key.slice(0, 40)}'`)
  throw new InvalidRequestError(
    'invalid_value',
    `logit_bias contains key(s) that cannot be converted to integer token IDs: [${listed.join(', ')}]`,
    { param: 'logit_bias', hint: 'texts can be biased in a list of pairs: [["text", -5], ["other", false]]' },
  )
}

const TOKEN_ID = /^\d{1,10}$/

/** llama.cpp's form: pairs of an id or a text, and a number or false, which forbids the token. */
function toBiasList(pairs: readonly (readonly unknown[])[]): Bias {
  const ids: Record<string, number> = {}
  const texts: [string, number][] = []
  for (const [index, pair] of pairs.entries()) {
    const [token, given] = pair
    const value = given === false ? Number.NEGATIVE_INFINITY : given
    const isPair = pair.length === 2 && typeof value === 'number' && (Number.isSafeInteger(token) || isText(token))
    if (!isPair) {
      throw invalid(
        'logit_bias',
        `logit_bias[${index}] must be a pair of a token id or a text of at most ${MAX_STOP_CHARACTERS} characters, and a number or false.`,
      )
    }
    if (typeof token === 'string') texts.push([token, value])
    else ids[String(token)] = value
  }
  if (texts.length > MAX_STOP_ITEMS) {
    throw invalid('logit_bias', `logit_bias must hold at most ${MAX_STOP_ITEMS} texts, got ${texts.length}.`)
  }
  return { logitBias: ids, textBias: texts }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_STOP_CHARACTERS
}

function toBadWords(words: readonly string[]): readonly string[] {
  if (words.some((word) => word.trim() === '')) {
    const listed = words.slice(0, 20).map((word) => `'${word.slice(0, 40)}'`)
    throw invalid('bad_words', `bad_words cannot contain an empty string. Got bad_words=[${listed.join(', ')}]`)
  }
  checkTexts('bad_words', words)
  return words
}

/** Nested, as published, or vLLM's three fields at the top. */
function toRepetition(request: ChatRequest): NonNullable<SamplingParameters['repetition']> | null {
  const nested = request.repetition_detection ?? null
  const maxPatternSize = nested?.max_pattern_size ?? request.max_repetition_pattern_size ?? 0
  const minPatternSize = nested?.min_pattern_size ?? request.min_repetition_pattern_size ?? 0
  const minCount = nested?.min_count ?? request.repetition_min_count ?? 0
  if (maxPatternSize < 0 || minPatternSize < 0 || minPatternSize > maxPatternSize) {
    throw invalid(
      'repetition_detection',
      'max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. ' +
        'Set both to 0 to disable repetitive pattern detection.',
    )
  }
  if (maxPatternSize === 0) return null
  if (minCount < 2) {
    throw invalid(
      'repetition_detection',
      'min_count must be >= 2 to detect repetitive patterns in engine output. ' +
        'If you do not wish to detect repetitive patterns, set max_pattern_size to 0.',
    )
  }
  return { maxPatternSize, minPatternSize, minCount }
}

/** Nothing is drawn in a beam search, so what shapes the draw is refused; so is what looks at text before an answer is chosen. */
function toBeam(request: ChatRequest): NonNullable<SamplingParameters['beam']> | null {
  if (request.use_beam_search !== true) return null
  const n = request.n ?? 1
  if (n > MAX_BEAMS) throw invalid('n', `n must be at most ${MAX_BEAMS} with use_beam_search, got ${n}.`)
  const clash = Object.entries({
    top_p: (request.top_p ?? 1) !== 1,
    top_k: (request.top_k ?? 0) > 0,
    min_p: (request.min_p ?? 0) !== 0,
    xtc_probability: toExtensions(request).xtc !== null,
    stop: (request.stop ?? []).length > 0,
    logprob_token_ids: (request.logprob_token_ids ?? []).length > 0,
    repetition_detection: (request.repetition_detection?.max_pattern_size ?? 0) > 0,
    repetition_penalty: (request.repetition_penalty ?? 1) !== 1,
  }).find(([, isSet]) => isSet)
  if (clash !== undefined) throw invalid(clash[0], `${clash[0]} cannot be combined with use_beam_search.`)
  return { lengthPenalty: request.length_penalty ?? SAMPLER_DEFAULTS.length_penalty }
}

/** DRY and XTC: fields of the request, or else arguments for the engine. */
function toExtensions(request: ChatRequest): Pick<SamplingParameters, 'dry' | 'xtc'> {
  const extra = { ...request.vllm_xargs, ...request.engine_xargs }
  const read = samplerExtensionsSchema.safeParse(extra)
  if (!read.success) {
    const [issue] = read.error.issues
    const path = `engine_xargs.${String(issue?.path[0] ?? '')}`
    throw invalid(path, `${path}: ${issue?.message ?? 'is wrong'}`)
  }
  const given = <K extends keyof SamplerExtensions>(name: K): NonNullable<SamplerExtensions[K]> | null =>
    request[name] ?? read.data[name] ?? null
  const multiplier = ranged('dry_multiplier', given('dry_multiplier') ?? 0, (v) => v >= 0, 'must be non-negative')
  const base = ranged('dry_base', given('dry_base') ?? SAMPLER_DEFAULTS.dry_base, (v) => v >= 1, 'must be at least 1')
  const allowedLength = ranged(
    'dry_allowed_length',
    given('dry_allowed_length') ?? SAMPLER_DEFAULTS.dry_allowed_length,
    (v) => v >= 1,
    'must be at least 1',
  )
  const lastTokens = ranged(
    'dry_penalty_last_n',
    given('dry_penalty_last_n') ?? SAMPLER_DEFAULTS.dry_penalty_last_n,
    (v) => v >= -1,
    'must be -1 (all tokens), or at least 0',
  )
  const breakers = given('dry_sequence_breakers') ?? SAMPLER_DEFAULTS.dry_sequence_breakers
  if (breakers.length > MAX_BREAKERS || breakers.some((text) => text === '' || text.length > MAX_BREAKER_CHARACTERS)) {
    throw invalid(
      'dry_sequence_breakers',
      `dry_sequence_breakers must hold at most ${MAX_BREAKERS} texts of 1 to ${MAX_BREAKER_CHARACTERS} characters.`,
    )
  }
  const probability = ranged(
    'xtc_probability',
    given('xtc_probability') ?? 0,
    (v) => v >= 0 && v <= 1,
    'must be in [0, 1]',
  )
  const threshold = ranged(
    'xtc_threshold',
    given('xtc_threshold') ?? SAMPLER_DEFAULTS.xtc_threshold,
    (v) => v >= 0 && v <= 1,
    'must be in [0, 1]',
  )
  return {
    dry: multiplier === 0 || lastTokens === 0 ? null : { multiplier, base, allowedLength, lastTokens, breakers },
    xtc: probability === 0 || threshold > 0.5 ? null : { probability, threshold },
  }
}

function checkTexts(field: string, texts: readonly string[]): void {
  if (texts.length > MAX_STOP_ITEMS) {
    throw invalid(field, `${field} must hold at most ${MAX_STOP_ITEMS} strings, got ${texts.length}.`)
  }
  if (texts.some((text) => text.length > MAX_STOP_CHARACTERS)) {
    throw invalid(field, `a string of ${field} must have at most ${MAX_STOP_CHARACTERS} characters.`)
  }
}

function toStopTokenIds(ids: readonly number[]): readonly number[] {
  if (ids.length > MAX_STOP_ITEMS) {
    throw invalid('stop_token_ids', `stop_token_ids must hold at most ${MAX_STOP_ITEMS} ids, got ${ids.length}.`)
  }
  return ids
}

export function checkTopLogprobs(request: ChatRequest, isTrainable: boolean): number {
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

/** Tokens to report at every position, each once. The engine knows which there are. */
export function toLogprobTokenIds(request: ChatRequest, isTrainable: boolean): readonly number[] {
  const ids = [...new Set(request.logprob_token_ids ?? [])]
  if (ids.length === 0) return ids
  if (!(request.logprobs ?? isTrainable)) {
    throw invalid('logprob_token_ids', 'when using `logprob_token_ids`, `logprobs` must be set to true.')
  }
  if (ids.length > MAX_LOGPROB_TOKENS) {
    throw invalid(
      'logprob_token_ids',
      `logprob_token_ids must have at most ${MAX_LOGPROB_TOKENS} ids, got ${ids.length}.`,
    )
  }
  return ids
}

/**
 * How many alternatives to report at each position of the prompt; null: positions are not reported. An echo with
 * log-probabilities has those of the prompt too. Chunks of a stream have no place for them.
 *
 * @throws {InvalidRequestError} naming the field
 */
export function checkPromptLogprobs(
  request: Pick<ChatRequest, 'prompt_logprobs' | 'stream' | 'echo' | 'logprobs' | 'top_logprobs'>,
): number | null {
  const given = request.prompt_logprobs ?? null
  const isStream = request.stream === true
  if (given === null) {
    return request.echo === true && request.logprobs === true && !isStream ? (request.top_logprobs ?? 0) : null
  }
  if (given < -1) throw invalid('prompt_logprobs', '`prompt_logprobs` must be a positive value or -1.')
  if (isStream && given !== 0) {
    throw invalid('prompt_logprobs', '`prompt_logprobs` are not available when `stream=True`.')
  }
  if (given > MAX_TOP_LOGPROBS || given === -1) {
    throw invalid(
      'prompt_logprobs',
      `Requested prompt logprobs of ${given}, which is greater than max allowed: ${MAX_TOP_LOGPROBS}`,
    )
  }
  return isStream ? null : given
}

function ranged(field: string, value: number, isInside: (value: number) => boolean, expectation: string): number {
  if (!isInside(value)) throw invalid(field, `${field} ${expectation}, got ${value}.`)
  return value
}

function invalid(param: string, message: string): AppError {
  return new InvalidRequestError('invalid_value', message, { param })
}
