/**
 * The distribution that a token was drawn from, for whoever learns from it (`contract/wire/sampling-record.ts`).
 *
 *     log q(a) = z_a / T − log of the sum over K of exp(z_k / T)       K: the tokens that could be drawn
 *
 * T and K are all that a learner can follow. What else changed scores is named, and so is a K of more than 512 tokens, with what made it.
 * Two cuts count as none: one of no more than rounding, and that of a grammar or of bans that leave more than 512 (inside a free string, an
 * end that may not come yet): there the whole vocabulary stands in, in log q too, so that both sides compute the same.
 */
import { MOST_KEPT_IDS } from '#base/sampling-record.js'
import { type LogitsRow, logprobsOf } from '../logits-row.js'
import type { LogitsProcessor } from './logits-processor.js'
import { type Draw, effectiveTemperature, isGreedy, type SamplingRules } from './sampler.js'
import { type AllowedTokens, idsOf } from './token-mask.js'

/** How one token was drawn. */
export interface DrawRecord {
  /** log q of the token; null: an engine elsewhere does not tell it, and temperature and set say what it is of. */
  readonly logprob: number | null
  /** K, the token in it, in no order; null: all tokens, or more than are recorded. */
  readonly keptIds: readonly number[] | null
  /** Fields whose effect the rest does not say. */
  readonly unmodelled: readonly string[]
}

/** Share of a distribution that rounding may take. */
const NEGLIGIBLE_SHARE = 1e-6

/** What came before a draw. */
export interface DrawContext {
  readonly rules: SamplingRules
  readonly row: LogitsRow
  /** What the grammar left; null: it held nothing. */
  readonly allowed: AllowedTokens | null
  /** Scores before and after processors, with those that had something to do; null: there are none. */
  readonly processed: {
    readonly before: Float32Array
    readonly after: Float32Array
    readonly acting: readonly LogitsProcessor[]
  } | null
  /** XTC acted on this token. */
  readonly excludesTop: boolean
}

/** @returns null for a token that was drawn plainly: at temperature 1 from the whole vocabulary */
export function recordDraw(draw: Draw, context: DrawContext): (DrawRecord & { readonly logprob: number }) | null {
  const { rules, processed, allowed } = context
  if (isGreedy(rules)) return { logprob: 0, keptIds: [draw.tokenId], unmodelled: [] }
  const inverse = 1 / effectiveTemperature(rules)
  const acting = processed?.acting ?? []
  const shifts = acting.filter(({ onlyForbids }) => !onlyForbids).flatMap(({ fields }) => fields)
  const keptIds = fewIds(draw, context)
  if (keptIds !== null) return { logprob: draw.logprob, keptIds, unmodelled: shifts }
  const banned = bans(draw, context, inverse)
  const others = [...shifts, ...truncations(draw, context)]
  if (others.length > 0) return { logprob: draw.logprob, keptIds: null, unmodelled: [...others, ...banned] }
  const isHeld = allowed !== null && allowed.count < allowed.vocabularySize
  if (isHeld || banned.length > 0) {
    return { logprob: logSoftmaxAt(context.row, draw.tokenId, inverse), keptIds: null, unmodelled: [] }
  }
  return inverse === 1 ? null : { logprob: draw.logprob, keptIds: null, unmodelled: [] }
}

/** K, if it is small enough and not everything. */
function fewIds(draw: Draw, { row, allowed, processed }: DrawContext): readonly number[] | null {
  const ids = idsLeft()
  const vocabularySize = (row.probabilities ?? logprobsOf(row)).length
  return ids === null || ids.length > MOST_KEPT_IDS || ids.length === vocabularySize ? null : ids

  function idsLeft(): readonly number[] | null {
    if (draw.keptIds !== null) return draw.keptIds
    if (processed !== null) return finiteIds(processed.after)
    return allowed !== null && allowed.count <= MOST_KEPT_IDS ? idsOf(allowed) : null
  }
}

/** Ids of possible scores; null if they are too many. */
function finiteIds(scores: Float32Array): readonly number[] | null {
  const ids: number[] = []
  for (let id = 0; id < scores.length; id++) {
    if (scores[id] === Number.NEGATIVE_INFINITY) continue
    if (ids.length === MOST_KEPT_IDS) return null
    ids.push(id)
  }
  return ids
}

/** Truncations that left out some of the tokens that there were. */
function truncations({ keptIds }: Draw, context: DrawContext): readonly string[] {
  const { rules, excludesTop, allowed, processed, row } = context
  if (keptIds === null) return []
  const isCounted = processed === null && allowed !== null
  const count = isCounted ? allowed.count : countFinite(processed?.after ?? logprobsOf(row))
  if (keptIds.length >= count) return []
  return Object.entries({
    top_k: rules.topK > 0,
    top_p: rules.topP < 1,
    min_p: rules.minP > 0,
    xtc_probability: excludesTop,
  }).flatMap(([field, isSet]) => (isSet ? [field] : []))
}

function countFinite(scores: Float32Array): number {
  let count = 0
  for (const score of scores) if (score !== Number.NEGATIVE_INFINITY) count++
  return count
}

/** Rules that made tokens impossible which were not before, unless those were next to impossible anyway. */
function bans({ tokenId, logprob }: Draw, { processed }: DrawContext, inverse: number): readonly string[] {
  const forbidding = (processed?.acting ?? []).filter(({ onlyForbids }) => onlyForbids)
  if (processed === null || forbidding.length === 0) return []
  const { before, after } = processed
  const logTotal = (after[tokenId] as number) * inverse - logprob
  let share = 0
  for (let id = 0; id < after.length; id++) {
    if (after[id] !== Number.NEGATIVE_INFINITY || before[id] === Number.NEGATIVE_INFINITY) continue
    share += Math.exp((before[id] as number) * inverse - logTotal)
  }
  return share > NEGLIGIBLE_SHARE ? forbidding.flatMap(({ fields }) => fields) : []
}

/** Of the whole vocabulary at a temperature. */
function logSoftmaxAt(row: LogitsRow, id: number, inverse: number): number {
  const logprobs = logprobsOf(row)
  if (inverse === 1) return logprobs[id] as number
  let top = Number.NEGATIVE_INFINITY
  for (const logprob of logprobs) if (logprob > top) top = logprob
  let sum = 0
  for (const logprob of logprobs) sum += Math.exp((logprob - top) * inverse)
  return Math.min(0, ((logprobs[id] as number) - top) * inverse - Math.log(sum))
}
