/**
 * Where assistant turns lie in a rendered conversation.
 *
 * The spans come from rendering, not from searching for role markers of known models: an assistant turn begins where
 * the rendering of the messages before it, with generation prompt, ends; it ends with its end-of-turn token. Where a
 * template rewrites earlier turns (Qwen3 removes their reasoning), so that the shorter rendering is no prefix of the
 * whole, the turn is found after the previous one by the header that the generation prompt consists of.
 */
import { DataError } from '#base/errors/errors.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { maxOf, minOf } from '#base/util/lists.js'

import type { BarredText } from './template/control-tokens.js'
import type { TextModel } from './text-model.js'

/** Span of an assistant turn in the rendered text: content, tool calls and end-of-turn token, without header. */
export interface TurnSpan {
  readonly start: number
  readonly end: number
}

/** Whether a message is the assistant's. */
export const isAssistant = (message: JsonValue | undefined): boolean =>
  isJsonObject(message) && message['role'] === 'assistant'

/** A rendered conversation, and how to render parts of it. */
export interface Rendering {
  readonly model: TextModel
  readonly whole: BarredText
  /** Renders the first `count` messages. */
  render(count: number, addGenerationPrompt: boolean): BarredText
  /** Renders another conversation. */
  renderOther(messages: readonly JsonValue[], addGenerationPrompt: boolean): string
}

/**
 * Finds assistant turns.
 *
 * @param wanted indices of messages; null means every assistant message
 * @returns spans by message index
 * @throws {DataError} `assistant_turn_not_found`, `tool_call_not_rendered`
 */
export function locateTurns(
  messages: readonly JsonValue[],
  wanted: readonly number[] | null,
  rendering: Rendering,
): Map<number, TurnSpan> {
  const spans = new Map<number, TurnSpan>()
  const isLong = wanted === null && messages.filter(isAssistant).length > MANY_TURNS
  const headers = isLong ? headerCandidates(rendering, headerOfProbe(rendering)) : []
  let cursor = 0
  for (const [message, value] of messages.entries()) {
    if (!isAssistant(value) || (wanted !== null && !wanted.includes(message))) continue
    const span = findPlainTurn(value, cursor, headers, rendering) ?? findTurn(value, message, { cursor, rendering })
    spans.set(message, span)
    cursor = span.end
  }
  return spans
}

/** Rendering every prefix costs the square of the number of turns, so long conversations try the cheap way first. */
const MANY_TURNS = 8

/**
 * A turn that reads header, content as given, end-of-turn token: certain without rendering its prefix. Null for any
 * other turn.
 */
function findPlainTurn(
  value: JsonValue,
  cursor: number,
  headers: readonly string[],
  { whole, model }: Rendering,
): TurnSpan | null {
  const content = isJsonObject(value) && (value['tool_calls'] ?? null) === null ? value['content'] : null
  const start = firstHeaderEnd(whole, headers, cursor)
  if (typeof content !== 'string' || content.trim() === '' || start === null) return null
  const end = endOfTurn(model, whole, start)
  if (end === null) return null
  const turn = whole.text.slice(start, end)
  const from = turn.indexOf(content.trim())
  const rest = turn.slice(from + content.trim().length).trim()
  const isPlain = from !== -1 && turn.slice(0, from).trim() === '' && model.tokenizer.specialTokens.includes(rest)
  return isPlain ? { start, end } : null
}

function findTurn(
  value: JsonValue,
  message: number,
  { cursor, rendering }: { cursor: number; rendering: Rendering },
): TurnSpan {
  const start = findStart(message, cursor, rendering)
  const end = findEnd(message, start, rendering)
  assertToolCallsAreWritten(value, message, rendering.whole.text.slice(start, end))
  return { start, end }
}

/** What a template may write behind the last message only, such as EOS after the end-of-turn token. */
const MAX_FINAL_TOKEN = 32

/** @param cursor end of the assistant turn before */
function findStart(message: number, cursor: number, rendering: Rendering): number {
  const { whole, render, model } = rendering
  const prompt = message === 0 ? null : render(message, true).text
  if (prompt !== null && prompt.length >= cursor && whole.text.startsWith(prompt)) return prompt.length
  const header = prompt === null ? headerOfProbe(rendering) : headerOf(model, render(message, false).text, prompt)
  const start = firstHeaderEnd(whole, headerCandidates(rendering, header), cursor)
  if (start === null) throw notFound(message)
  return start
}

/** End of the first header that the template wrote after a position; the longest one where several begin together. */
function firstHeaderEnd(whole: BarredText, headers: readonly string[], cursor: number): number | null {
  const found = headers
    .map((text) => ({ text, at: indexOutsideBarriers(whole, text, cursor) }))
    .filter(({ at }) => at !== -1)
    .sort((a, b) => a.at - b.at || b.text.length - a.text.length)[0]
  return found === undefined ? null : found.at + found.text.length
}

/** A conversation of one user message. */
const PROBE = [{ role: 'user', content: 'x' }]

function headerOfProbe({ model, renderOther }: Rendering): string {
  return headerOf(model, renderOther(PROBE, false), renderOther(PROBE, true))
}

/**
 * Beginnings of the generation prompt that can stand before an assistant turn: a thinking block in it, for example, is
 * not repeated in every turn. They hold a control token, so no user text can be taken for one, and are not the
 * beginning of a user turn.
 */
function headerCandidates({ model, renderOther }: Rendering, header: string): string[] {
  const userTurn = renderOther(PROBE, false)
  const cuts = ['<think>', ...model.tokenizer.specialTokens].flatMap((token) => {
    const at = header.lastIndexOf(token)
    return at > 0 ? [at] : []
  })
  for (let at = header.indexOf('\n'); at !== -1; at = header.indexOf('\n', at + 1)) cuts.push(at + 1)
  return [header.length, ...cuts]
    .map((cut) => header.slice(0, cut))
    .filter((text) => holdsControlToken(model, text) && !userTurn.includes(text))
}

/** End of the turn's last token: its end-of-turn token, or all its text where the template writes none. */
function findEnd(message: number, start: number, { whole, render, model }: Rendering): number {
  const after = render(message + 1, false)
  if (whole.text.startsWith(after.text)) {
    const ends = endOfTurn(model, after, start)
    return ends ?? Math.max(start, after.text.length)
  }
  const end = endOfTurn(model, whole, start)
  if (end === null) throw notFound(message)
  // The turn in its own rendering may have reasoning before and a final token behind, but must hold the same text.
  const turn = whole.text.slice(start, end)
  const at = after.text.lastIndexOf(turn)
  if (at === -1 || after.text.length - at - turn.length > MAX_FINAL_TOKEN) throw notFound(message)
  return end
}

/**
 * What the generation prompt adds. A template may write something else in its place without it (Phi-3: EOS), so this is
 * the part after the common beginning, from the start of the control token that the difference falls into.
 */
function headerOf({ tokenizer }: TextModel, without: string, prompt: string): string {
  let common = 0
  while (common < without.length && without[common] === prompt[common]) common++
  const starts = tokenizer.specialTokens.flatMap((token) => {
    const at = prompt.lastIndexOf(token, common)
    return at !== -1 && at + token.length > common ? [at] : []
  })
  return prompt.slice(minOf(starts, common))
}

function holdsControlToken(model: TextModel, text: string): boolean {
  return model.tokenizer.encode(text, { parseSpecial: true }).some((id) => model.tokenizer.isSpecial(id))
}

/** End of the first end-of-turn token after a position; else of the last control token; null without either. */
export function endOfTurn(model: TextModel, rendered: BarredText, start: number): number | null {
  const { tokenizer, eosTokenIds } = model
  const ends = eosTokenIds
    .map((id) => tokenizer.idToToken(id) ?? '')
    .filter((token) => token !== '')
    .map((token) => ({ token, at: indexOutsideBarriers(rendered, token, start) }))
    .filter(({ at }) => at !== -1)
    .map(({ token, at }) => at + token.length)
  if (ends.length > 0) return minOf(ends)
  const others = tokenizer.specialTokens
    .map((token) => ({ token, at: rendered.text.lastIndexOf(token) }))
    .filter(({ at }) => at >= start)
    .map(({ token, at }) => at + token.length)
  return others.length > 0 ? maxOf(others) : null
}

/** First occurrence that the template wrote, not user text; -1 if there is none. */
function indexOutsideBarriers({ text, barriers }: BarredText, needle: string, from: number): number {
  for (let at = text.indexOf(needle, from); at !== -1; at = text.indexOf(needle, at + 1)) {
    if (!barriers.some((barrier) => barrier > at && barrier < at + needle.length)) return at
  }
  return -1
}

/** A template without tool support silently leaves calls out; training on the rest would teach the model not to call. */
export function assertToolCallsAreWritten(value: JsonValue, message: number, turn: string): void {
  const calls = isJsonObject(value) ? value['tool_calls'] : null
  if (!Array.isArray(calls)) return
  for (const [index, call] of calls.entries()) {
    const callee: JsonValue | undefined = isJsonObject(call) ? call['function'] : undefined
    const name = isJsonObject(callee) ? callee['name'] : undefined
    if (typeof name !== 'string' || turn.includes(name)) continue
    const param = `messages[${message}].tool_calls[${index}]`
    throw new DataError('tool_call_not_rendered', `${param} is left out by the chat template of the model`, { param })
  }
}

function notFound(message: number): DataError {
  return new DataError(
    'assistant_turn_not_found',
    `messages[${message}] cannot be located in what the chat template writes`,
    {
      param: `messages[${message}]`,
      hint: 'split the conversation so that this is its last message',
    },
  )
}
