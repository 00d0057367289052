/**
 * Tools for a chat template that shows none: told in the system prompt, in the form of Hermes, with earlier calls and results as text of
 * ordinary turns, so that agents run on any chat model. llama.cpp has such a prompt for the same templates.
 *
 * The first user message holds the prompt where a template takes no system message. Results become user turns, joined with what
 * the user says next: some templates take turns that alternate only. Conversations without tools are left as they are.
 */
import { isExactNumber, textOfNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { isWritten, textOfWritten } from './written-json.js'

export interface PlainConversation {
  readonly messages: readonly JsonObject[]
  /** For each message, the position of the first that it was made of. */
  readonly origins: readonly number[]
}

/** @param takesSystem whether the template writes a system message */
export function withGenericTools(
  messages: readonly JsonObject[],
  tools: readonly JsonValue[],
  takesSystem: boolean,
): PlainConversation {
  const turns: { message: JsonObject; readonly origin: number; readonly isResult: boolean }[] = []
  for (const [origin, message] of messages.entries()) {
    const isResult = message['role'] === 'tool' || message['role'] === 'function'
    const turn = isResult ? resultTurn(message) : message['role'] === 'assistant' ? answerTurn(message) : message
    const last = turns.at(-1)
    if (turn['role'] === 'user' && last?.isResult === true) {
      last.message = { ...last.message, content: joinContents(last.message['content'], turn['content']) }
    } else turns.push({ message: turn, origin, isResult })
  }
  const prompt = promptOf(tools)
  const at = turns.findIndex(({ message }) => message['role'] === 'system')
  const user = turns.findIndex(({ message }) => message['role'] === 'user')
  const told = at >= 0 ? turns[at] : takesSystem ? undefined : turns[user]
  if (told === undefined) {
    const hasParts = turns.some(({ message }) => Array.isArray(message['content']))
    const content: JsonValue = hasParts ? [{ type: 'text', text: prompt }] : prompt
    turns.unshift({ message: { role: 'system', content }, origin: 0, isResult: false })
  } else {
    const { content } = told.message
    const isSystem = at >= 0
    const both = isSystem ? joinContents(content, prompt, '\n\n') : joinContents(prompt, content, '\n\n')
    told.message = { ...told.message, content: both }
  }
  return { messages: turns.map(({ message }) => message), origins: turns.map(({ origin }) => origin) }
}

function promptOf(tools: readonly JsonValue[]): string {
  return [
    'You can call functions. Their signatures, one a line, are between the tags <tools> and </tools>:',
    '<tools>',
    ...tools.map((tool) => jsonText(isJsonObject(tool) ? (tool['function'] ?? tool) : tool)),
    '</tools>',
    'To call a function, write its name and its arguments as JSON between tags, once for each call:',
    '<tool_call>',
    '{"name": "the name", "arguments": {"the argument": "its value"}}',
    '</tool_call>',
    'What a function returns is given to you between the tags <tool_response> and </tool_response>. Answer in words when no call is needed.',
  ].join('\n')
}

function resultTurn({ content }: JsonObject): JsonObject {
  const opened = joinContents('<tool_response>', content)
  return { role: 'user', content: joinContents(opened, '</tool_response>') }
}

function answerTurn(message: JsonObject): JsonObject {
  const { tool_calls: calls, ...rest } = message
  if (!Array.isArray(calls)) return message
  const written = calls.map((call: JsonValue) => {
    const called = isJsonObject(call) ? call['function'] : null
    const { name = '', arguments: given = {} } = isJsonObject(called) ? called : {}
    return `<tool_call>\n{"name": ${jsonText(name)}, "arguments": ${jsonText(given)}}\n</tool_call>`
  })
  const content = message['content'] ?? ''
  const isEmpty = content === '' || (Array.isArray(content) && content.length === 0)
  return { ...rest, content: joinContents(content, written.join('\n'), isEmpty ? '' : '\n') }
}

type Part = JsonObject & { readonly type: 'text' }

/** Texts, or lists of parts where a template takes those. */
function joinContents(before: JsonValue | undefined, after: JsonValue | undefined, separator = '\n'): JsonValue {
  if (!Array.isArray(before) && !Array.isArray(after)) return `${textOf(before)}${separator}${textOf(after)}`
  const parts = [...partsOf(before), { type: 'text', text: separator } as const, ...partsOf(after)]
  return [{ type: 'text', text: parts.map((part) => textOf(part['text'])).join('') }]
}

const textOf = (content: JsonValue | undefined): string => (typeof content === 'string' ? content : '')
const partsOf = (content: JsonValue | undefined): readonly Part[] =>
  Array.isArray(content)
    ? content.filter((part: JsonValue): part is Part => isJsonObject(part) && part['type'] === 'text')
    : [{ type: 'text', text: textOf(content) }]

/** As Python spaces it; arguments that the model wrote itself, and long numbers, as they were written. */
function jsonText(value: JsonValue): string {
  if (isExactNumber(value)) return textOfNumber(value)
  if (isWritten(value)) return textOfWritten(value)
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}: ${jsonText(item ?? null)}`)
    .join(', ')}}`
}
