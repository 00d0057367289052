/**
 * Answers of a conversation as they were sampled: where a rendered prompt goes on behind a prompt that was answered, the answer's tokens stand
 * in place of what the template writes for it, so that the prompt begins with what the model read and wrote.
 *
 * Text alone cannot say that: other tokens spell the same text, and what stood between two calls is in no message. Knows no messages; what is
 * no longer rendered as it was (earlier reasoning that a template leaves out) stays as the template writes it.
 */
import { createHash } from 'node:crypto'
import { REASONING_END } from '#formats/answers/answer-format.js'
import { endOfTurn } from './assistant-turns.js'
import type { BarredText } from './template/control-tokens.js'
import type { TextModel } from './text-model.js'

/** A rendered prompt, told apart from others. */
export interface PromptMark {
  /** UTF-16 units. */
  readonly length: number
  /** SHA-256, hexadecimal. */
  readonly digest: string
}

/** An answer and the prompt that it answered. */
export interface SampledTurn {
  readonly prompt: PromptMark
  readonly tokenIds: readonly number[]
}

export function markOfPrompt(text: string): PromptMark {
  return { length: text.length, digest: createHash('sha256').update(text, 'utf16le').digest('hex') }
}

/**
 * Tokenizes a rendered conversation.
 *
 * @param turns answers that may stand in it, in any order; of several to one prompt the last counts
 */
export function encodeSampled(
  model: TextModel,
  { text, barriers }: BarredText,
  turns: readonly SampledTurn[],
  maxTokens?: number,
): number[] {
  const tokenIds: number[] = []
  let position = 0
  const append = (end: number): void => {
    const own = barriers.filter((barrier) => barrier > position && barrier < end)
    const options = { parseSpecial: true, barriers: own.map((barrier) => barrier - position), maxTokens }
    for (const id of model.tokenizer.encode(text.slice(position, end), { ...options, after: tokenIds.at(-1) })) {
      tokenIds.push(id)
    }
    position = end
  }
  for (const { prompt, tokenIds: sampled } of answered(text, turns)) {
    const turn = prompt.length < position ? null : spanOf(model, { text, barriers }, prompt.length, sampled)
    if (turn === null) continue
    append(prompt.length)
    for (const id of sampled) tokenIds.push(id)
    position = turn.end
  }
  append(text.length)
  return tokenIds
}

/** The turns whose prompt the text begins with, in order. */
function answered(text: string, turns: readonly SampledTurn[]): readonly SampledTurn[] {
  const found = new Map<number, SampledTurn>()
  const hash = createHash('sha256')
  let hashed = 0
  for (const turn of [...turns].sort((a, b) => a.prompt.length - b.prompt.length)) {
    const { length, digest } = turn.prompt
    if (length > text.length) break
    hash.update(text.slice(hashed, length), 'utf16le')
    hashed = length
    if (hash.copy().digest('hex') === digest) found.set(length, turn)
  }
  return [...found.values()]
}

/** Where the text goes on behind an answer: behind its end-of-turn token, or at it where the answer has none. */
function spanOf(
  model: TextModel,
  rendered: BarredText,
  start: number,
  sampled: readonly number[],
): { readonly end: number } | null {
  const { tokenizer, eosTokenIds } = model
  const end = endOfTurn(model, rendered, start)
  if (end === null) return null
  const turn = rendered.text.slice(start, end)
  const mark = eosTokenIds
    .map((id) => tokenizer.idToToken(id) ?? '')
    .find((token) => token !== '' && turn.endsWith(token))
  const isThought = tokenizer.decode(sampled).includes(REASONING_END)
  if (mark === undefined || isThought !== turn.includes(REASONING_END)) return null
  return { end: eosTokenIds.includes(sampled.at(-1) ?? -1) ? end : end - mark.length }
}
