/**
 * Checks a request against the model before it may wait: lengths, token ids, queue.
 *
 * Texts are vLLM's, because clients match on them.
 */
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { GenerationRequest } from '../generation.js'

/** What requests are checked against. */
export interface AdmissionLimits {
  readonly contextLength: number
  readonly vocabularySize: number
  readonly maxWaiting: number
}

/**
 * Refuses a request that can never be served.
 *
 * @throws {InvalidRequestError} `context_length_exceeded`, `invalid_value`
 */
export function assertAdmissible(request: GenerationRequest, limits: AdmissionLimits): void {
  assertLength(request, limits.contextLength)
  const { rules, promptTokenIds } = request
  const { vocabularySize } = limits
  assertVocabulary('prompt', promptTokenIds, vocabularySize)
  assertVocabulary('stop_token_ids', rules.stopTokenIds, vocabularySize)
  assertVocabulary('logprob_token_ids', rules.logprobTokenIds ?? [], vocabularySize)
  assertVocabulary('logit_bias', Object.keys(rules.logitBias ?? {}).map(Number), vocabularySize)
  const allowed = rules.allowedTokenIds
  if (allowed?.length === 0) throw invalid('allowed_token_ids', 'allowed_token_ids is not None and empty!')
  if (allowed?.some((id) => !isTokenId(id, vocabularySize)) === true) {
    throw invalid('allowed_token_ids', 'allowed_token_ids contains out-of-vocab token id!')
  }
}

/** The error for a full queue. */
export function queueFullError(maxWaiting: number): AppError {
  return new AppError('rate_limited', 'queue_full', `queue of this model is full: ${maxWaiting} requests are waiting`, {
    hint: 'retry after a moment',
  })
}

function assertLength({ promptTokenIds, rules }: GenerationRequest, contextLength: number): void {
  const promptLength = promptTokenIds.length
  const outputLength = rules.maxTokens ?? 0
  if (promptLength === 0) throw invalid('messages', 'prompt must contain at least one token, got 0')
  if (outputLength > contextLength) {
    throw invalid('max_tokens', `max_tokens=${outputLength} cannot be greater than max_model_len=${contextLength}.`)
  }
  if (promptLength > contextLength - outputLength) {
    const message =
      `This model's maximum context length is ${contextLength} tokens. However, you requested ${outputLength} output ` +
      `tokens and your prompt contains at least ${promptLength} input tokens, for a total of at least ` +
      `${promptLength + outputLength} tokens. Please reduce the length of the input prompt or the number of requested ` +
      `output tokens. (parameter=input_tokens, value=${promptLength})`
    throw new InvalidRequestError('context_length_exceeded', message, {
      param: 'input_tokens',
      details: { n_prompt_tokens: promptLength, n_ctx: contextLength },
    })
  }
  if (promptLength === contextLength) throw invalid('max_tokens', 'max_tokens must be at least 1, got 0.')
}

function assertVocabulary(field: string, ids: readonly number[], vocabularySize: number): void {
  const foreign = ids.filter((id) => !isTokenId(id, vocabularySize))
  if (foreign.length === 0) return
  const listed = foreign.slice(0, 16).join(', ')
  throw invalid(
    field,
    `token_id(s) [${listed}] in ${field} contain out-of-vocab token ids. Vocabulary size: ${vocabularySize}`,
  )
}

function isTokenId(id: number, vocabularySize: number): boolean {
  return Number.isInteger(id) && id >= 0 && id < vocabularySize
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
