/**
 * A request of the engine as an engine node reads it (`contract/processes/token-wire.ts`), in the words of the engine that computes there.
 *
 * What an engine has no words for is refused by name: nothing is left out.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import type { NodeEngineName } from '#contract/processes/engine-node.js'
import type { GenerateBody, OwnRules, SamplingParams } from '#contract/processes/token-wire.js'
import type { GenerationRequest, GenerationRules } from '../engine/generation.js'
import type { GrammarSpec, TextTrigger } from '../grammar/grammar-spec.js'

export interface BodyOptions {
  /** How long prompt and answer may be together. */
  readonly contextLength: number
  readonly eosTokenIds: readonly number[]
}

/** vLLM refuses a request with more, unless it is told otherwise (`--max-logprobs`); its node tells it this. */
export const MAX_VLLM_LOGPROBS = 256

/**
 * The body, as JSON.
 *
 * @throws {InvalidRequestError} `unsupported_by_engine` naming the field
 */
export function toGenerateBody(request: GenerationRequest, engine: NodeEngineName, options: BodyOptions): string {
  const { rules, promptTokenIds } = request
  const maxTokens = rules.maxTokens ?? options.contextLength - promptTokenIds.length
  const common = toCommonParams(rules, maxTokens)
  const isWhole = engine === 'vllm' && (rules.promptLogprobs ?? null) !== null
  const params = engine === 'vllm' ? toVllmParams(request, common, options) : toOwnParams(request, common)
  const body: Omit<GenerateBody, 'sampling_params'> = {
    request_id: request.id,
    token_ids: [...promptTokenIds],
    model: request.adapter?.digest ?? null,
    stream: !isWhole,
    cache_salt: request.cacheSalt,
    priority: request.priority ?? 0,
  }
  const text = JSON.stringify({ sampling_params: params, ...body })
  // first of all in the text, so that nothing of the request's own can be taken for it
  return engine === 'vllm' && rules.seed !== null ? text.replace(`"${SEED}"`, String(rules.seed)) : text
}

/** Stands where a number is written that JavaScript has no number for. */
const SEED = '@seed@'

type CommonParams = Omit<SamplingParams, 'seed' | 'structured_outputs' | 'bad_words' | 'extra_args' | 'detokenize'>

function toCommonParams(rules: GenerationRules, maxTokens: number): CommonParams {
  const { repetition = null } = rules
  return {
    n: rules.n,
    temperature: rules.temperature,
    top_p: rules.topP,
    top_k: rules.topK,
    min_p: rules.minP,
    repetition_penalty: rules.repetitionPenalty,
    frequency_penalty: rules.frequencyPenalty,
    presence_penalty: rules.presencePenalty,
    max_tokens: maxTokens,
    min_tokens: rules.minTokens,
    stop_token_ids: [...rules.stopTokenIds],
    ignore_eos: rules.ignoreEos,
    logprobs: rules.topLogprobs,
    prompt_logprobs: rules.promptLogprobs ?? null,
    logprob_token_ids: listOrNull(rules.logprobTokenIds),
    logit_bias: rules.logitBias === null ? null : { ...rules.logitBias },
    allowed_token_ids: rules.allowedTokenIds === null ? null : [...rules.allowedTokenIds],
    repetition_detection:
      repetition === null
        ? null
        : {
            min_pattern_size: repetition.minPatternSize,
            max_pattern_size: repetition.maxPatternSize,
            min_count: repetition.minCount,
          },
  }
}

function listOrNull(ids: readonly number[] | undefined): number[] | null {
  return ids === undefined || ids.length === 0 ? null : [...ids]
}

function toOwnParams({ rules, words, keyId }: GenerationRequest, common: CommonParams): object {
  const bias = Object.entries(rules.logitBias ?? {})
  const forbidden = bias.filter(([, value]) => value === Number.NEGATIVE_INFINITY).map(([id]) => Number(id))
  const { badWords = [], dry = null, xtc = null, beam = null } = rules
  const own: OwnRules = {
    ...(rules.seed === null ? {} : { seed: String(rules.seed) }),
    ...(badWords.length === 0 ? {} : { bad_words: badWords.map((ids) => [...ids]) }),
    ...(dry === null
      ? {}
      : {
          dry: {
            multiplier: dry.multiplier,
            base: dry.base,
            allowed_length: dry.allowedLength,
            last_tokens: dry.lastTokens,
            breaker_ids: [...dry.breakerIds],
          },
        }),
    ...(xtc === null ? {} : { xtc }),
    ...(beam === null ? {} : { beam: { length_penalty: beam.lengthPenalty } }),
    ...(words === undefined || words.grammar === null
      ? {}
      : { grammar: words.grammar, grammar_after_reasoning: words.isAfterReasoning }),
    ...(forbidden.length === 0 ? {} : { forbidden_ids: forbidden }),
    ...(keyId === undefined ? {} : { key_id: keyId }),
    ...(rules.recordsDraws === true ? { records_draws: true } : {}),
  }
  const finite = bias.filter(([, value]) => value !== Number.NEGATIVE_INFINITY)
  const logitBias = rules.logitBias === null ? null : Object.fromEntries(finite)
  return { ...common, logit_bias: logitBias, extra_args: { trainyard: own } }
}

function toVllmParams({ rules, words }: GenerationRequest, common: CommonParams, { eosTokenIds }: BodyOptions): object {
  const { dry = null, xtc = null, beam = null } = rules
  if ((dry?.multiplier ?? 0) > 0) throw unsupported('dry_multiplier')
  if (xtc !== null) throw unsupported('xtc_probability')
  if (beam !== null) throw unsupported('use_beam_search')
  if (Object.values(rules.logitBias ?? {}).some((value) => !Number.isFinite(value))) {
    throw unsupported('logit_bias', 'a bias of minus infinity')
  }
  if (common.logprob_token_ids !== null && rules.topLogprobs > 0) {
    throw unsupported('logprob_token_ids', 'logprob_token_ids beside top_logprobs')
  }
  if (rules.topLogprobs >= MAX_VLLM_LOGPROBS) throw unsupported('top_logprobs', 'so many top_logprobs')
  const ends = rules.ignoreEos ? [] : eosTokenIds
  return {
    // the placeholder must be the first text of the body
    ...(rules.seed === null ? {} : { seed: SEED }),
    ...withoutNulls(common),
    // vLLM makes them from all logits of a position: a tenth of its rate for a small model
    ...(rules.hasLogprobs === false
      ? { logprobs: undefined }
      : listedLogprobs(rules.topLogprobs, common.logprob_token_ids)),
    // which tokens end an answer is said by us: those of the model's files and of its template are not always the same
    ignore_eos: true,
    stop_token_ids: [...new Set([...ends, ...rules.stopTokenIds])],
    ...structuredOutputs(words),
    ...(words === undefined || words.badWords.length === 0
      ? { detokenize: false }
      : { bad_words: [...words.badWords] }),
  }
}

/** The sampled token takes one of the places that vLLM lists, so one more is asked for. */
function listedLogprobs(top: number, ids: readonly number[] | null): object {
  if (ids === null) return { logprobs: top === 0 ? 0 : top + 1 }
  const asked = new Set(ids)
  for (let id = 0; asked.size <= ids.length; id++) asked.add(id)
  // it takes these two together only if they agree
  return { logprobs: asked.size, logprob_token_ids: [...asked] }
}

function withoutNulls(params: CommonParams): object {
  return Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null))
}

function structuredOutputs(words: GenerationRequest['words']): object {
  const grammar = words?.grammar ?? null
  if (grammar === null) return {}
  // what is held from a mark of its own on leaves the reasoning alone
  const trigger = (grammar as { readonly trigger?: TextTrigger }).trigger ?? null
  // it would be held to its calls wherever the mark stands, and it is a mere brace
  if (trigger?.isAtBeginning === true) {
    throw unsupported('tools', 'a strict tool of a model whose calls count at the beginning of an answer only')
  }
  if (words?.isAfterReasoning === true && trigger === null) {
    throw unsupported('response_format', 'a constraint on what follows reasoning that the prompt has begun')
  }
  return { structured_outputs: toStructuredOutputs(grammar as GrammarSpec) }
}

function toStructuredOutputs(grammar: GrammarSpec): object {
  switch (grammar.kind) {
    case 'json_schema':
      return { json: grammar.schema, disable_any_whitespace: grammar.isWhitespaceFree }
    case 'regex':
      return { regex: grammar.pattern }
    case 'choice':
      return { choice: grammar.choices }
    case 'ebnf':
      return { grammar: grammar.grammar }
    case 'structural_tag':
      return { structural_tag: grammar.tag }
  }
}

/** @param what default: the field itself */
function unsupported(field: string, what = field): InvalidRequestError {
  return new InvalidRequestError(
    'unsupported_by_engine',
    `${what} is not to be had where this model is served by vLLM`,
    {
      param: field,
      hint: `leave ${field} out, or serve the model with Trainyard's own engine`,
    },
  )
}
