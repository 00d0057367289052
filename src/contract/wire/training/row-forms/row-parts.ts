/**
 * Parts of training rows that several forms share: how they are found, and what they become. Knows no form.
 */
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { append } from '#base/util/lists.js'

/** A converted part or row, or why it cannot be one, to stand behind "its" or "a": `function_call turn is no JSON`. */
export type Converted<T = JsonObject> = T | string

/** Names of lists of turns. */
const LISTS = ['conversations', 'conversation', 'dialog', 'dialogue', 'messages'] as const
const QUESTIONS = ['instruction', 'question', 'query', 'prompt', 'input'] as const
const CONTEXTS = ['input', 'context'] as const
const ANSWERS = ['output', 'answer', 'response', 'completion'] as const

/** What is labelled, and the label, the more particular names first. */
const LABELLED = [
  'text',
  'sentence',
  'review',
  'comment',
  'utterance',
  'headline',
  'tweet',
  'content',
  'prompt',
] as const
const LABELS = ['label_text', 'label', 'category', 'class', 'intent', 'sentiment', 'topic', 'emotion'] as const

/** Who speaks in ShareGPT's rows; any other name is none of a role. */
const SPEAKERS: ReadonlyMap<string, string> = new Map([
  ...['human', 'user'].map((name) => [name, 'user'] as const),
  ...['gpt', 'chatgpt', 'bot', 'assistant', 'model'].map((name) => [name, 'assistant'] as const),
  ...['observation', 'tool'].map((name) => [name, 'tool'] as const),
  ['system', 'system'],
])

export function turnsNameOf(row: JsonObject): string | null {
  return LISTS.find((name) => listIn(row, name).length > 0 && listIn(row, name).every(isTurn)) ?? null
}

/** The name of a list of messages that is not `messages`. */
export function messagesNameOf(row: JsonObject): string | null {
  const isMessage = (turn: JsonValue): boolean => isJsonObject(turn) && isText(turn['role'])
  return (
    LISTS.find((name) => name !== 'messages' && listIn(row, name).length > 0 && listIn(row, name).every(isMessage)) ??
    null
  )
}

export function isTurn(value: JsonValue | undefined): value is JsonObject {
  return isJsonObject(value) && isText(value['from']) && isText(value['value'])
}

export function isDialogText(value: JsonValue | undefined): value is string {
  return isText(value) && /^\s*Human:/.test(value) && value.includes('\n\nAssistant:')
}

export function isAsked(row: JsonObject): boolean {
  return textName(row, QUESTIONS) !== null
}

export function isAnswered(row: JsonObject): boolean {
  return textName(row, ANSWERS) !== null
}

/** Names of a text and of its label, which may be a number or a boolean. */
export function labelledTextOf(row: JsonObject): { readonly text: string; readonly label: string } | null {
  const text = textName(row, LABELLED)
  const label = LABELS.find((name) => has(row, name) && typeof row[name] !== 'object' && row[name] !== '')
  return text === null || label === undefined ? null : { text, label }
}

export function isPair(row: JsonObject): boolean {
  return has(row, 'prompt') && has(row, 'completion')
}

/** Turns of from and value as messages, with what stands beside (`weight`, `train`); a call and its result find each other by their order. */
export function messagesOfTurns(turns: readonly JsonValue[]): Converted<readonly JsonObject[]> {
  const messages: JsonObject[] = []
  const openCalls: string[] = []
  let callCount = 0
  for (const turn of turns) {
    if (!isTurn(turn)) return 'turns are not all of from and value'
    const { from: speaker, value: content = null, ...others } = turn
    const from = String(speaker)
    const twice = ['role', 'content', 'tool_calls', 'tool_call_id'].find((name) => has(others, name))
    if (twice !== undefined) return `turn has ${twice} beside from and value, of which one would be lost`
    if (from === 'function_call') {
      const calls = callsIn(String(content))
      if (typeof calls === 'string') return calls
      const made = calls.map((call) => ({ id: `call_${callCount++}`, type: 'function', function: call }))
      append(
        openCalls,
        made.map(({ id }) => id),
      )
      messages.push({ ...others, role: 'assistant', content: null, tool_calls: made })
      continue
    }
    const role = SPEAKERS.get(from)
    if (role === undefined) return `turn is from ${JSON.stringify(from.slice(0, 40))}, which is no role`
    const callId = role === 'tool' ? openCalls.shift() : undefined
    messages.push({ ...others, role, content, ...(callId === undefined ? {} : { tool_call_id: callId }) })
  }
  return messages
}

/** A dialog of HH-RLHF as messages. */
export function messagesOfDialog(text: string): readonly JsonObject[] {
  return text
    .trimStart()
    .split(/(?:^|\n\n)(?=Human:|Assistant:)/)
    .filter((part) => part !== '')
    .map((part) => {
      const isHuman = part.startsWith('Human:')
      return {
        role: isHuman ? 'user' : 'assistant',
        content: part.slice(isHuman ? 'Human:'.length : 'Assistant:'.length).trim(),
      }
    })
}

/** Names of a system prompt that stands beside the turns (LlamaFactory; OpenOrca). */
export const SYSTEM_NAMES = ['system', 'system_prompt'] as const

/** A system prompt that stands beside the turns, and the name that has it; null for an empty one, `twice` for two that differ. */
export function systemTextOf(row: JsonObject): { readonly name: string; readonly text: string } | 'twice' | null {
  const said = SYSTEM_NAMES.flatMap((name) => {
    const text = row[name]
    return isText(text) && text.trim() !== '' ? [{ name, text }] : []
  })
  const [first, second] = said
  return second !== undefined && second.text !== first?.text ? 'twice' : (first ?? null)
}

/** The same as a message in front of turns, unless they begin with it. */
export function systemOf(row: JsonObject, turns: readonly JsonValue[] = []): readonly JsonObject[] {
  const system = systemTextOf(row)
  if (system === null || system === 'twice') return []
  const first = turns[0]
  const isThere = isJsonObject(first) && first['role'] === 'system' && first['content'] === system.text
  return isThere ? [] : [{ role: 'system', content: system.text }]
}

/** A row without its system prompt, where that is a text. */
export function withoutSystem(row: JsonObject): JsonObject {
  return without(
    row,
    SYSTEM_NAMES.filter((name) => isText(row[name])),
  )
}

/**
 * What a label says, or `train` of a turn: booleans as they stand in JSON, and as tables write them (pandas, CSV, Arrow). Null for
 * what is no answer to whether.
 */
export function labelOf(value: JsonValue | undefined): boolean | null {
  if (typeof value === 'boolean') return value
  const word = isText(value) ? value.trim().toLowerCase() : value
  if (word === 1 || word === 'true' || word === '1') return true
  return word === 0 || word === 'false' || word === '0' ? false : null
}

/** A question with what it is about below, as Alpaca's rows are joined. */
export function questionOf(row: JsonObject): { readonly content: string; readonly names: readonly string[] } {
  const question = textName(row, QUESTIONS) ?? ''
  const context = textName(
    row,
    CONTEXTS.filter((name) => name !== question),
  )
  const names = context === null ? [question] : [question, context]
  const content = names.map((name) => String(row[name] ?? '')).filter((text) => text !== '')
  return { content: content.join('\n'), names }
}

/** A question and its answer as one conversation, with what was said before in `history`. */
export function conversationOfPair(row: JsonObject): Converted {
  const { content, names } = questionOf(row)
  const answer = textName(row, ANSWERS) ?? ''
  const history = row['history'] ?? null
  if (history !== null && !(Array.isArray(history) && history.every(isExchange))) {
    return 'history is no list of questions with their answers'
  }
  const earlier = listIn(row, 'history').flatMap((each) => {
    const [asked, said] = each as readonly JsonValue[]
    return [
      { role: 'user', content: asked ?? '' },
      { role: 'assistant', content: said ?? '' },
    ]
  })
  const turns = [
    { role: 'user', content },
    { role: 'assistant', content: row[answer] ?? '' },
  ]
  return {
    ...without(withoutSystem(row), [...names, answer, 'history']),
    messages: [...systemOf(row), ...earlier, ...turns],
  }
}

/** Tools written as text become a list, functions alone become tools; an empty text is none. */
export function withReadTools(row: JsonObject): Converted {
  const { tools } = row
  if (!isText(tools)) return row
  if (tools.trim() === '') return without(row, ['tools'])
  const list = parsed(tools)
  if (!Array.isArray(list) || !list.every(isJsonObject)) return 'tools are a text that is no JSON list of objects'
  const made = list.map((tool) => (isJsonObject(tool['function']) ? tool : { type: 'function', function: tool }))
  return { ...row, tools: made }
}

/** JSON in a text, its numbers exact; undefined where it is none. */
export function parsed(text: string): JsonValue | undefined {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}

export function without(row: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name)))
}

export function listIn(row: JsonObject, name: string): readonly JsonValue[] {
  const list = row[name]
  return Array.isArray(list) ? list : []
}

export function isText(value: JsonValue | undefined): value is string {
  return typeof value === 'string'
}

export function has(row: JsonObject, name: string): boolean {
  return (row[name] ?? null) !== null
}

function textName(row: JsonObject, names: readonly string[]): string | null {
  return names.find((name) => isText(row[name])) ?? null
}

function isExchange(value: JsonValue): boolean {
  return Array.isArray(value) && value.length === 2 && value.every(isText)
}

/** The calls in a turn of `function_call`: one object with name and arguments, or a list of them. */
function callsIn(text: string): Converted<readonly JsonObject[]> {
  const value = parsed(text)
  const calls = Array.isArray(value) ? value : [value]
  const made: JsonObject[] = []
  for (const call of calls) {
    if (!isJsonObject(call) || !isText(call['name'])) return 'function_call turn is no JSON of a name and arguments'
    const args = call['arguments'] ?? {}
    made.push({ name: call['name'], arguments: isText(args) ? (parsed(args) ?? args) : args })
  }
  return made.length === 0 ? 'function_call turn is no JSON of a name and arguments' : made
}
