/**
 * Assistant turns as a chat asks for them: the prompt that the chat endpoint renders for the messages before, and behind it what must
 * be generated to give the turn.
 *
 * A template may write a turn in one way while it is the last and in another once the conversation goes on (Qwen3 drops its
 * reasoning), so that several turns of one conversation need sequences of their own. Where a template's turn does not begin as its
 * generation prompt does, because of a think block, the block is put in its place; anything else is found as `assistant-turns.ts` does.
 */
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import {
  assertToolCallsAreWritten,
  endOfTurn,
  isAssistant,
  locateTurns,
  type Rendering,
  type TurnSpan,
} from './assistant-turns.js'
import type { BarredText } from './template/control-tokens.js'

/** A text that begins as a chat does, and the turns in it. */
export interface AskedText {
  readonly rendered: BarredText
  readonly spans: readonly TurnSpan[]
}

/** A turn at the end of its text. */
interface AskedTurn {
  readonly rendered: BarredText
  readonly start: number
}

/** Rendering every prompt costs the square of the number of turns, so long conversations are not asked turn by turn if they need not be. */
const MANY_TURNS = 8

/**
 * The texts that hold the wanted turns, as few as begin as their prompts do; in the order of the turns.
 *
 * @param turns positions of assistant messages; without any the text is the whole conversation
 * @throws {DataError} as `locateTurns`
 */
export function askedTexts(
  messages: readonly JsonValue[],
  turns: readonly number[],
  rendering: Rendering,
): AskedText[] {
  const texts: { rendered: BarredText; spans: TurnSpan[] }[] = [{ rendered: rendering.whole, spans: [] }]
  let located: ReadonlyMap<number, TurnSpan> | null = null
  const locate = (turn: number): TurnSpan | undefined => {
    located ??= locateTurns(messages, null, rendering)
    return located.get(turn)
  }
  const isPlain = turns.length > MANY_TURNS && !messages.some(hasReasoning) && isSteady(rendering)
  for (const turn of turns.toReversed()) {
    const asked = isPlain ? null : askedTurn(messages[turn] ?? null, turn, rendering)
    const span = asked === null ? locate(turn) : undefined
    const { rendered, start } = asked ?? {
      rendered: cut(rendering.whole, span?.end ?? 0),
      start: span?.start ?? 0,
    }
    let home = texts.find(({ rendered: { text } }) => text.startsWith(rendered.text))
    if (home === undefined) {
      home = { rendered, spans: [] }
      texts.push(home)
    }
    home.spans.unshift({ start, end: rendered.text.length })
  }
  const used = texts.filter(({ spans }) => spans.length > 0)
  return used.length === 0 ? texts : used.sort((a, b) => a.rendered.text.length - b.rendered.text.length)
}

/** Null where the rendered turn cannot be told apart from what stands before it. */
function askedTurn(message: JsonValue, turn: number, rendering: Rendering): AskedTurn | null {
  if (turn === 0) return null
  const { render, model } = rendering
  const prompt = render(turn, true)
  const after = render(turn + 1, false)
  const begins = (text: string): boolean => after.text.startsWith(text)
  const tail = begins(prompt.text) ? null : /<think>\s*(<\/think>\s*)?$/.exec(prompt.text)
  const head = tail === null ? prompt.text : prompt.text.slice(0, tail.index)
  if (!begins(head)) return null
  const end = endOfTurn(model, after, head.length) ?? after.text.length
  assertToolCallsAreWritten(message, turn, after.text.slice(head.length, end))
  if (tail === null) return { rendered: cut(after, end), start: head.length }
  return behindThinkBlock(
    { message, prompt, isClosed: tail[1] !== undefined, written: { after, start: head.length, end } },
    rendering,
  )
}

/** A turn whose prompt ends with a think block that the template does not write in the turn, or writes otherwise. */
function behindThinkBlock(
  {
    message,
    prompt,
    isClosed,
    written: { after, start, end },
  }: {
    readonly message: JsonValue
    readonly prompt: BarredText
    readonly isClosed: boolean
    readonly written: { readonly after: BarredText; readonly start: number; readonly end: number }
  },
  { model }: Rendering,
): AskedTurn {
  const block = /^<think>([\s\S]*?)<\/think>\s*/.exec(after.text.slice(start, end))
  const reasoning = (block?.[1] ?? reasoningOf(message)).trim()
  const thought = isClosed ? '' : `${reasoning}\n</think>\n\n`
  const from = start + (block?.[0].length ?? 0)
  const before = prompt.text.length
  const shift = before + thought.length - from
  // the reasoning is a text of the caller's: what spells a control token in it stays text
  const ofReasoning = isClosed
    ? []
    : model.tokenizer.specialTokens.flatMap((token) => occurrences(reasoning, token).map((at) => before + at + 1))
  return {
    rendered: {
      text: `${prompt.text}${thought}${after.text.slice(from, end)}`,
      barriers: [
        ...prompt.barriers,
        ...ofReasoning.sort((a, b) => a - b),
        ...after.barriers.filter((barrier) => barrier >= from && barrier <= end).map((barrier) => barrier + shift),
      ],
    },
    start: before,
  }
}

function occurrences(text: string, part: string): number[] {
  const found: number[] = []
  for (let at = text.indexOf(part); at !== -1 && part !== ''; at = text.indexOf(part, at + 1)) found.push(at)
  return found
}

function reasoningOf(message: JsonValue): string {
  if (!isJsonObject(message)) return ''
  const given = message['reasoning'] ?? message['reasoning_content']
  if (typeof given === 'string') return given
  const content = message['content']
  return (typeof content === 'string' ? /<think>([\s\S]*?)<\/think>/.exec(content)?.[1] : undefined) ?? ''
}

const hasReasoning = (message: JsonValue): boolean =>
  isAssistant(message) && (reasoningOf(message) !== '' || JSON.stringify(message).includes('</think>'))

/** Whether a plain answer is written the same when the conversation goes on. */
function isSteady({ renderOther }: Rendering): boolean {
  const user = { role: 'user', content: 'x' }
  const answer = { role: 'assistant', content: 'y' }
  const prompt = renderOther([user], true)
  const goesOn = renderOther([user, answer, user, answer], false)
  return goesOn.startsWith(prompt) && goesOn.slice(prompt.length).startsWith('y')
}

function cut({ text, barriers }: BarredText, end: number): BarredText {
  return { text: text.slice(0, end), barriers: barriers.filter((barrier) => barrier <= end) }
}
