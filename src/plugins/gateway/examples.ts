/**
 * Recorded calls as rows of supervised training: the conversation with the upstream's answer as its last message, in chat's form.
 *
 * Calls whose answers are no examples are left out with the reason: refused, cut, without content, or with what a model of text
 * cannot read.
 */
import { AppError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { toChatMessages, toSystem } from '../messages/message-input.js'
import type { InputMessage } from '../messages/wire.js'
import { toMessages } from '../responses/response-input.js'
import type { RecordedCall } from './route.js'

/** A row, and the facts of its call that training does not read. */
export interface ExampleRow {
  readonly messages: readonly JsonValue[]
  readonly tools?: readonly JsonValue[]
  readonly gateway_call: JsonObject
}

/** @returns the row, or why there is none */
export function toExample(call: RecordedCall): { readonly row: ExampleRow } | { readonly reason: string } {
  if (call.outcome !== 'complete') return { reason: call.outcome }
  if (call.content !== 'kept' || call.request === null || call.answer === null) return { reason: call.content }
  const request = JSON.parse(call.request) as JsonObject
  const answer = JSON.parse(call.answer) as JsonObject
  try {
    const read = READERS[call.form](request, answer)
    if (typeof read === 'string') return { reason: read }
    const { messages, tools, schema } = read
    const facts = {
      id: call.id,
      started_at: new Date(call.startedAtMs).toISOString(),
      model: call.model,
      duration_ms: Math.round(call.durationMs),
      output_tokens: call.outputTokens,
      prompt_digest: call.promptDigest,
      schema,
    }
    return { row: { messages, ...(tools.length === 0 ? {} : { tools }), gateway_call: facts } }
  } catch (error) {
    // whoever asked said something that only its upstream understands
    if (error instanceof AppError || error instanceof TypeError) return { reason: 'unreadable_for_text_models' }
    throw error
  }
}

interface Conversation {
  readonly messages: readonly JsonValue[]
  readonly tools: readonly JsonValue[]
  /** That the answer was to fit. */
  readonly schema: JsonObject | null
}
type Reader = (request: JsonObject, answer: JsonObject) => Conversation | string

const READERS: Readonly<Record<RecordedCall['form'], Reader>> = {
  chat: readChat,
  messages: readMessage,
  responses: readResponse,
}

function readChat(request: JsonObject, answer: JsonObject): Conversation | string {
  const [choice] = objectsOf(answer['choices'])
  const reason = choice?.['finish_reason']
  if (reason !== 'stop' && reason !== 'tool_calls' && reason !== 'function_call')
    return `finish_${String(reason ?? 'unknown')}`
  const message = objectOf(choice?.['message'])
  if ((message['refusal'] ?? null) !== null) return 'refusal'
  const said = { role: 'assistant', content: message['content'] ?? null, ...callsOf(message) }
  const messages = [...objectsOf(request['messages']), said].map(plainMessage)
  if (messages.includes(null)) return 'unreadable_for_text_models'
  const format = objectOf(request['response_format'])
  const schema = objectOf(objectOf(format['json_schema'])['schema'])
  return {
    messages: messages as JsonObject[],
    tools: objectsOf(request['tools']),
    schema: format['type'] === 'json_schema' && Object.keys(schema).length > 0 ? schema : null,
  }
}

const callsOf = (message: JsonObject): JsonObject =>
  Array.isArray(message['tool_calls']) && message['tool_calls'].length > 0 ? { tool_calls: message['tool_calls'] } : {}

/** A message with its text alone; null where it holds something else. */
function plainMessage(message: JsonObject): JsonObject | null {
  const { content = null, role, ...rest } = message
  const shown = { ...rest, role: role === 'developer' ? 'system' : (role ?? null) }
  if (content === null || typeof content === 'string') return { ...shown, content }
  const parts = objectsOf(content)
  const texts = parts.map(({ type, text }) => (/^(?:input_|output_)?text$/.test(String(type)) ? text : null))
  return texts.every((text) => typeof text === 'string') ? { ...shown, content: texts.join('') } : null
}

function readMessage(request: JsonObject, answer: JsonObject): Conversation | string {
  const reason = answer['stop_reason']
  if (!['end_turn', 'stop_sequence', 'tool_use'].includes(String(reason))) return `stop_${String(reason ?? 'unknown')}`
  const tools = objectsOf(request['tools'])
  if (tools.some(({ type }) => (type ?? 'custom') !== 'custom')) return 'server_tools'
  // an answer that goes on behind what the assistant had said already is joined to it
  const all = [...objectsOf(request['messages']), { role: 'assistant', content: withoutThinking(answer['content']) }]
  const given = all.map(({ role, content }) => ({ role: String(role), content: content as InputMessage['content'] }))
  const system = request['system'] ?? null
  const first = system === null ? null : toSystem(system as Parameters<typeof toSystem>[0])
  const messages = [...(first === null ? [] : [first]), ...toChatMessages(given)]
  const plain = messages.map((message) => plainMessage(message as JsonObject))
  if (plain.includes(null)) return 'unreadable_for_text_models'
  const format = objectOf(objectOf(request['output_config'])['format'])
  return {
    messages: plain as JsonObject[],
    tools: tools.map(({ name, description, input_schema: parameters }) => toolOf(name, description, parameters)),
    schema: format['type'] === 'json_schema' ? objectOf(format['schema']) : null,
  }
}

/** What an upstream's model thought is often shortened or signed, and no example of how to think. */
const withoutThinking = (content: unknown): JsonValue[] =>
  objectsOf(content).filter(({ type }) => type !== 'thinking' && type !== 'redacted_thinking')

function readResponse(request: JsonObject, answer: JsonObject): Conversation | string {
  if (answer['status'] !== 'completed') return `status_${String(answer['status'] ?? 'unknown')}`
  if ((request['previous_response_id'] ?? request['conversation'] ?? null) !== null) return 'conversation_elsewhere'
  const tools = objectsOf(request['tools'])
  if (tools.some(({ type }) => type !== 'function')) return 'server_tools'
  const input = request['input']
  const asked = typeof input === 'string' ? [{ type: 'message', role: 'user', content: input }] : objectsOf(input)
  const items = [...asked, ...objectsOf(answer['output'])].filter(({ type }) => type !== 'reasoning')
  const instructions = request['instructions']
  const first = typeof instructions === 'string' ? [{ role: 'system', content: instructions }] : []
  const messages = [...first, ...toMessages(items as Parameters<typeof toMessages>[0])]
  const plain = messages.map((message) => plainMessage(message as JsonObject))
  if (plain.includes(null)) return 'unreadable_for_text_models'
  const format = objectOf(objectOf(request['text'])['format'])
  return {
    messages: plain as JsonObject[],
    tools: tools.map(({ name, description, parameters }) => toolOf(name, description, parameters)),
    schema: format['type'] === 'json_schema' ? objectOf(format['schema']) : null,
  }
}

function toolOf(name: unknown, description: unknown, parameters: unknown): JsonObject {
  const described = typeof description === 'string' ? { description } : {}
  return { type: 'function', function: { name: String(name), ...described, parameters: objectOf(parameters) } }
}

function objectOf(value: unknown): JsonObject {
  return isJsonObject(value as JsonValue) ? (value as JsonObject) : {}
}

function objectsOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}
