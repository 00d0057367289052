/**
 * How much a node may answer: what was asked for, in characters and in tokens. A node may be a stranger's, and whoever reads it reads
 * for others too, so more than that ends the call.
 */
import { LONGEST_UNMODELLED_NAME, MOST_KEPT_IDS, MOST_UNMODELLED_NAMES } from '#base/sampling-record.js'
import type { GenerationRequest } from '../engine/generation.js'

export interface AnswerLimits {
  /** Tokens of a choice. */
  readonly tokens: number
  /** Tokens listed at a position. */
  readonly listed: number
  /** Characters of an event of the stream. */
  readonly eventCharacters: number
  /** Characters of the whole answer as a stream, which is read and left event by event. */
  readonly answerCharacters: number
  /** Characters of an answer in one piece. */
  readonly pieceCharacters: number
}

/** A token that is listed at a position: id, log-probability, rank, its text and bytes as vLLM spells them. */
const LISTED_CHARACTERS = 256
/** A token, and the event that it may have for itself. */
const TOKEN_CHARACTERS = 1024
/** How a token was drawn: the ids of its set, and the names of what is not told, with their commas and quotes. */
const DRAWN_CHARACTERS = MOST_KEPT_IDS * 9 + MOST_UNMODELLED_NAMES * (LONGEST_UNMODELLED_NAME + 3)
/** Tokens of a choice in one event: vLLM joins those that nobody has read yet. */
const TOKENS_AT_ONCE = 256
/** What an answer has around its tokens, errors too. */
const AROUND_CHARACTERS = 64 * 1024
/** Whatever was asked for: what is read in one go is held whole, twice as JSON, by a process that serves others too. */
const MOST_AT_ONCE = 64 * 1024 ** 2

/** @param contextLength of prompt and answer */
export function answerLimits({ rules, promptTokenIds }: GenerationRequest, contextLength: number): AnswerLimits {
  const tokens = Math.max(1, rules.maxTokens ?? contextLength - promptTokenIds.length)
  // vLLM lists the sampled token too, and those that were asked for by name beside the likeliest
  const listed = rules.topLogprobs + 2 + 2 * (rules.logprobTokenIds?.length ?? 0)
  const drawnCharacters = rules.recordsDraws === true ? DRAWN_CHARACTERS : 0
  const tokenCharacters = TOKEN_CHARACTERS + listed * LISTED_CHARACTERS + drawnCharacters
  const promptLogprobs = rules.promptLogprobs ?? null
  const promptCharacters =
    promptLogprobs === null ? 0 : promptTokenIds.length * (TOKEN_CHARACTERS + (promptLogprobs + 2) * LISTED_CHARACTERS)
  const answerCharacters = AROUND_CHARACTERS + rules.n * tokens * tokenCharacters + promptCharacters
  const eventCharacters = AROUND_CHARACTERS + rules.n * Math.min(tokens, TOKENS_AT_ONCE) * tokenCharacters
  return {
    tokens,
    listed: Math.max(listed, (promptLogprobs ?? 0) + 2),
    eventCharacters: Math.min(MOST_AT_ONCE, eventCharacters),
    answerCharacters,
    pieceCharacters: Math.min(MOST_AT_ONCE, answerCharacters),
  }
}
