/**
 * A body of the wire (`contract/processes/token-wire.ts`) as a request of our own engine: the other end of
 * `inference/remote/generate-body.ts`.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import {
  type GenerateBody,
  generateBodySchema,
  type OwnRules,
  type SamplingParams,
} from '#contract/processes/token-wire.js'
import type { AdapterSource, GenerationRequest, GenerationRules } from '#inference/engine/generation.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'

/** What a body asks for beside the request itself. */
export interface ReadBody {
  readonly body: GenerateBody
  readonly own: OwnRules
  readonly grammar: GrammarSpec | null
}

/**
 * Reads a body.
 *
 * @throws {InvalidRequestError} `invalid_json`, `invalid_value` naming the field
 */
export function readGenerateBody(text: string): ReadBody {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (cause) {
    throw new InvalidRequestError('invalid_json', 'the body is not JSON', { cause })
  }
  const result = generateBodySchema.safeParse(parsed)
  if (!result.success) {
    const [issue] = result.error.issues
    const param = issue?.path.join('.') ?? ''
    throw new InvalidRequestError(
      'invalid_value',
      `${param === '' ? 'the body' : param}: ${issue?.message ?? 'is not valid'}`,
      {
        param,
      },
    )
  }
  const body = result.data
  const { structured_outputs: structured, bad_words: badWords, extra_args: extra } = body.sampling_params
  // words of vLLM that this engine takes in its own form: nothing is dropped in silence
  if (structured !== undefined) throw unknown('structured_outputs', 'extra_args.trainyard.grammar')
  if (badWords !== undefined) throw unknown('bad_words', 'extra_args.trainyard.bad_words')
  const own = extra?.trainyard ?? {}
  return { body, own, grammar: (own.grammar ?? null) as GrammarSpec | null }
}

/** @param adapter null: the base model */
export function toEngineRequest(
  { body, own }: ReadBody,
  adapter: AdapterSource | null,
  tokenMask: GenerationRules['tokenMask'],
): GenerationRequest {
  return {
    id: body.request_id,
    promptTokenIds: body.token_ids,
    rules: { ...toRules(body.sampling_params, own), ...(tokenMask == null ? {} : { tokenMask }) },
    adapter,
    cacheSalt: body.cache_salt,
    priority: body.priority,
    ...(own.key_id === undefined ? {} : { keyId: own.key_id }),
  }
}

function toRules(params: SamplingParams, own: OwnRules): GenerationRules {
  const { dry, xtc, beam } = own
  const repetition = params.repetition_detection
  return {
    n: params.n,
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    minP: params.min_p,
    repetitionPenalty: params.repetition_penalty,
    frequencyPenalty: params.frequency_penalty,
    presencePenalty: params.presence_penalty,
    seed: own.seed === undefined ? toBigInt(params.seed) : BigInt(own.seed),
    maxTokens: params.max_tokens,
    minTokens: params.min_tokens,
    stopTokenIds: params.stop_token_ids,
    ignoreEos: params.ignore_eos,
    topLogprobs: params.logprobs,
    ...(own.records_draws === true ? { recordsDraws: true } : {}),
    promptLogprobs: params.prompt_logprobs,
    logprobTokenIds: params.logprob_token_ids ?? [],
    logitBias: withForbidden(params.logit_bias, own.forbidden_ids ?? []),
    allowedTokenIds: params.allowed_token_ids,
    badWords: own.bad_words ?? [],
    repetition:
      repetition === null
        ? null
        : {
            minPatternSize: repetition.min_pattern_size,
            maxPatternSize: repetition.max_pattern_size,
            minCount: repetition.min_count,
          },
    dry:
      dry === undefined
        ? null
        : {
            multiplier: dry.multiplier,
            base: dry.base,
            allowedLength: dry.allowed_length,
            lastTokens: dry.last_tokens,
            breakerIds: new Set(dry.breaker_ids),
          },
    xtc: xtc ?? null,
    beam: beam === undefined ? null : { lengthPenalty: beam.length_penalty },
  }
}

function toBigInt(seed: number | null): bigint | null {
  return seed === null ? null : BigInt(seed)
}

function withForbidden(bias: SamplingParams['logit_bias'], forbidden: readonly number[]): GenerationRules['logitBias'] {
  if (forbidden.length === 0) return bias
  return { ...bias, ...Object.fromEntries(forbidden.map((id) => [String(id), Number.NEGATIVE_INFINITY])) }
}

function unknown(field: string, instead: string): InvalidRequestError {
  return new InvalidRequestError('unsupported_by_engine', `${field} is vLLM's; this engine reads ${instead}`, {
    param: `sampling_params.${field}`,
  })
}
