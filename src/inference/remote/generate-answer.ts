/**
 * What an engine node answers, as the events that the engine's listeners hear.
 *
 * Our own engine's numbers come through as they are: JSON carries every double. vLLM's are put in our order: the k most likely tokens by
 * rank, without the sampled one in front.
 */
import type { NodeEngineName } from '#contract/processes/engine-node.js'
import type { GenerateWhole, WireChoice, WirePosition } from '#contract/processes/token-wire.js'
import type { GenerationRules, PromptTokenEvent, TokenEvent } from '../engine/generation.js'
import { LOWEST_LOGPROB, type RankedToken } from '../engine/sampling/logprobs.js'
import { effectiveTemperature, isGreedy } from '../engine/sampling/sampler.js'
import { REPETITION_DETECTED } from '../engine/sampling/stop-conditions.js'

export interface AnswerOptions {
  readonly engine: NodeEngineName
  readonly rules: GenerationRules
  /** The answer is held to a grammar. */
  readonly isHeld: boolean
  readonly eosTokenIds: ReadonlySet<number>
}

const FINISH_REASONS = new Set(['stop', 'length', 'repetition'])

/** How the engine ended a choice that we did not end: not an answer. */
export function isCutShort({ finish_reason: reason }: WireChoice): boolean {
  return reason !== null && !FINISH_REASONS.has(reason)
}

/** The tokens of one choice in a chunk, in order. */
export function toTokenEvents(choice: WireChoice, options: AnswerOptions): readonly TokenEvent[] {
  const ids = choice.token_ids ?? []
  const content = choice.logprobs?.content ?? []
  return ids.map((tokenId, i): TokenEvent => {
    const position = content[i]
    const isLast = i === ids.length - 1
    return {
      choice: choice.index,
      tokenId,
      logprob: position?.logprob ?? LOWEST_LOGPROB,
      top: position === undefined ? [] : topOf(position, options),
      ...drawnOf(tokenId, position, options),
      ...(isLast ? endOf(choice, tokenId, options) : GOING_ON),
    }
  })
}

/** How a token was drawn, where that is asked for: what our own engine says, and of vLLM what rules it cannot be told of. */
function drawnOf(
  tokenId: number,
  position: NonNullable<NonNullable<WireChoice['logprobs']>['content']>[number] | undefined,
  { engine, rules, isHeld }: AnswerOptions,
): Pick<TokenEvent, 'drawn'> {
  if (rules.recordsDraws !== true) return {}
  if (engine === 'onnx') {
    const drawn = position?.drawn
    if (drawn === undefined) return {}
    const { logprob, kept_ids: keptIds = null, unmodelled = [] } = drawn
    return { drawn: { logprob, keptIds, unmodelled } }
  }
  if (isGreedy(rules)) return { drawn: { logprob: 0, keptIds: [tokenId], unmodelled: [] } }
  const unmodelled = untold(rules, isHeld)
  const isRaw = effectiveTemperature(rules) === 1
  if (isRaw && unmodelled.length === 0) return {}
  // it tells the raw log-probability, whatever it draws from; at another temperature whoever learns from it computes its own
  const logprob = isRaw ? Math.min(0, position?.logprob ?? LOWEST_LOGPROB) : null
  return { drawn: { logprob, keptIds: null, unmodelled } }
}

/** Rules of a request, but for its temperature, whose effect on a token's probability vLLM does not tell. */
function untold(rules: GenerationRules, isHeld: boolean): readonly string[] {
  return Object.entries({
    top_k: rules.topK > 0,
    top_p: rules.topP < 1,
    min_p: rules.minP > 0,
    repetition_penalty: rules.repetitionPenalty !== 1,
    frequency_penalty: rules.frequencyPenalty !== 0,
    presence_penalty: rules.presencePenalty !== 0,
    logit_bias: Object.keys(rules.logitBias ?? {}).length > 0,
    allowed_token_ids: rules.allowedTokenIds !== null,
    bad_words: (rules.badWords ?? []).length > 0,
    min_tokens: rules.minTokens > 0,
    structured_outputs: isHeld,
  }).flatMap(([field, isSet]) => (isSet ? [field] : []))
}

const GOING_ON = { finishReason: null, stopReason: null } as const

function endOf(
  { finish_reason: reason, stop_reason: stop = null }: WireChoice,
  tokenId: number,
  { engine, rules, eosTokenIds }: AnswerOptions,
): Pick<TokenEvent, 'finishReason' | 'stopReason'> {
  if (reason === null || !FINISH_REASONS.has(reason)) return GOING_ON
  if (reason === 'repetition') return { finishReason: 'repetition', stopReason: REPETITION_DETECTED }
  if (reason === 'length') return { finishReason: 'length', stopReason: null }
  if (engine === 'onnx') return { finishReason: 'stop', stopReason: typeof stop === 'number' ? stop : null }
  // vLLM was given the ends of sequence as stop tokens, so it names them
  const isEnd = !rules.ignoreEos && eosTokenIds.has(tokenId)
  return { finishReason: 'stop', stopReason: isEnd ? null : tokenId }
}

function topOf({ top_logprobs: listed }: WirePosition, { engine, rules }: AnswerOptions): readonly RankedToken[] {
  if (engine === 'onnx') return listed.map(({ token_id: id, logprob }) => ({ id, logprob }))
  const byId = new Map(listed.map((token) => [token.token_id, token]))
  const wanted = rules.logprobTokenIds ?? []
  const ranked = [...byId.values()]
    .filter(({ rank }) => rank != null && rank <= rules.topLogprobs)
    .sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0) || a.token_id - b.token_id)
    .slice(0, rules.topLogprobs)
  const known = new Set(ranked.map(({ token_id: id }) => id))
  const others = wanted.filter((id) => !known.has(id)).map((id) => ({ token_id: id, logprob: byId.get(id)?.logprob }))
  return [...ranked, ...others].map(({ token_id: id, logprob = LOWEST_LOGPROB }) => ({ id, logprob }))
}

/** The positions of the prompt behind the first one. */
export function toPromptEvents(
  { prompt_logprobs: positions }: GenerateWhole,
  promptTokenIds: readonly number[],
  k: number,
): readonly PromptTokenEvent[] {
  return (positions ?? []).flatMap((entries, position): PromptTokenEvent[] => {
    const tokenId = promptTokenIds[position]
    if (entries === null || tokenId === undefined) return []
    const own = entries[String(tokenId)]
    const ranked = Object.entries(entries)
      .map(([id, { logprob, rank }]) => ({ id: Number(id), logprob, rank: rank ?? Number.POSITIVE_INFINITY }))
      .filter(({ rank }) => rank <= k)
      .sort((a, b) => a.rank - b.rank || a.id - b.id)
      .slice(0, k)
    const top = ranked.map(({ id, logprob }) => ({ id, logprob }))
    return [{ position, tokenId, rank: own?.rank ?? 0, logprob: own?.logprob ?? LOWEST_LOGPROB, top }]
  })
}
