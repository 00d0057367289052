/**
 * One chat message as it trains: older forms converted, what would be lost refused, what nothing reads noted.
 *
 * OpenAI's earlier form of calls (`function_call`, role `function`, `functions`) becomes today's; a `refusal` is what the
 * assistant said, so it is its content. Templates are given the fields below and no others (`model/text/template/messages.ts`).
 */
import { TEXT_PART_FIELDS } from '#base/content-parts.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { isSaid, READ_FIELDS, unreadIn } from '#contract/wire/training/row-forms.js'
import type { NoteKind } from './data-notes.js'

/** Notes something about a message; `name` is that of a field inside of it. */
export type NoteField = (kind: NoteKind, name: string) => void

const PART_FIELDS: ReadonlyMap<unknown, string> = new Map(Object.entries(TEXT_PART_FIELDS))

/** What is wrong with a message, to stand behind "has": `both function_call and tool_calls`. */
export type MessageProblem = string

/** Converts the messages of one conversation, in order: a function's result belongs to the call before it. */
export interface MessageReader {
  read(message: JsonObject, note: NoteField): JsonObject | MessageProblem
  /** A reader that goes on from here, for one of several answers to the same messages. */
  fork(): MessageReader
}

interface OpenCall {
  readonly id: string
  readonly name: string
}

/** @param fields that are read */
export function createMessageReader(fields: ReadonlySet<string> = READ_FIELDS.trajectoryMessage): MessageReader {
  return readerFrom(fields, 0, [])
}

/** @param open calls whose results are still to come */
function readerFrom(fields: ReadonlySet<string>, calls: number, open: OpenCall[]): MessageReader {
  let callCount = calls

  function withCall(message: JsonObject, call: JsonValue): JsonObject | MessageProblem {
    const { function_call: _, ...others } = message
    if (isSaid(message['tool_calls'])) return 'both function_call and tool_calls, of which one would be lost'
    if (!isJsonObject(call) || typeof call['name'] !== 'string') return 'a function_call that is no object with a name'
    const { name, arguments: args = '{}' } = call
    const id = `call_${callCount++}`
    open.push({ id, name })
    return { ...others, tool_calls: [{ id, type: 'function', function: { name, arguments: args } }] }
  }

  function asToolResult(message: JsonObject): JsonObject {
    const at = open.findIndex(({ name }) => name === message['name'])
    const [call] = open.splice(Math.max(0, at), 1)
    return { ...message, role: 'tool', ...(call === undefined ? {} : { tool_call_id: call.id }) }
  }

  return {
    fork: () => readerFrom(fields, callCount, [...open]),
    read(message, note) {
      noteUnread(message, fields, note)
      let read = message
      const call = message['function_call'] ?? null
      if (call !== null) {
        const converted = withCall(message, call)
        if (typeof converted === 'string') return converted
        note('converted', 'function_call as tool_calls')
        read = converted
      }
      if (message['role'] === 'function') {
        note('converted', 'role function as tool')
        read = asToolResult(read)
      }
      const refusal = message['refusal'] ?? null
      if (refusal === null || refusal === '') return read
      if (typeof refusal !== 'string') return 'a refusal that is no text'
      if (!isBlank(message['content'] ?? null)) return 'both content and refusal, of which one would be lost'
      note('converted', 'refusal as content')
      const { refusal: _, ...others } = read
      return { ...others, content: refusal }
    },
  }
}

/** Tools of a row, where OpenAI's earlier `functions` are some, too. @returns the tools, null for none, or what is wrong */
export function readTools(row: JsonObject, note: NoteField): readonly JsonObject[] | null | MessageProblem {
  const tools = row['tools'] ?? null
  const functions = row['functions'] ?? null
  if (tools !== null && !isListOfObjects(tools)) return 'tools that are not an array of objects'
  if (functions === null || (isListOfObjects(functions) && functions.length === 0)) return tools
  if (!isListOfObjects(functions)) return 'functions that are not an array of objects'
  if (tools !== null && tools.length > 0) return 'both functions and tools, of which one would be lost'
  note('converted', 'functions as tools')
  return functions.map((each) => ({ type: 'function', function: each }))
}

/** Names the fields of an object that say something and are not among those that are read. */
export function noteUnreadFields(object: JsonObject, read: ReadonlySet<string>, note: NoteField, path = ''): void {
  for (const name of unreadIn(object, read)) note('unread', `${path}${name}`)
}

/** Whether a turn of the assistant holds nothing. @param isReasoningRead whether reasoning is something */
export function isEmptyAnswer(message: JsonObject, isReasoningRead: boolean): boolean {
  if (message['role'] !== 'assistant' || isSaid(message['tool_calls'])) return false
  const reasoning = message['reasoning'] ?? message['reasoning_content'] ?? null
  return isBlank(message['content'] ?? null) && (!isReasoningRead || isBlank(reasoning))
}

function noteUnread(message: JsonObject, fields: ReadonlySet<string>, note: NoteField): void {
  noteUnreadFields(message, fields, note)
  const { content } = message
  if (!Array.isArray(content)) return
  for (const part of content as readonly JsonValue[]) {
    const field = isJsonObject(part) ? PART_FIELDS.get(part['type']) : undefined
    if (isJsonObject(part) && field !== undefined) noteUnreadFields(part, new Set(['type', field]), note, 'content[].')
  }
}

function isBlank(content: JsonValue): boolean {
  if (content === null) return true
  if (typeof content === 'string') return content.trim() === ''
  if (!Array.isArray(content)) return false
  return content.every((part: JsonValue) => {
    if (!isJsonObject(part)) return isBlank(part)
    const field = PART_FIELDS.get(part['type'])
    return field !== undefined && isBlank(part[field] ?? null)
  })
}

function isListOfObjects(value: JsonValue): value is readonly JsonObject[] {
  return Array.isArray(value) && value.every(isJsonObject)
}
