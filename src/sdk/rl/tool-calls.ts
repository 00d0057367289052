/**
 * Calls of tools in an answer: the structured ones of the API, else those a model wrote into its text.
 *
 * The form in text is that of Hermes and Qwen templates: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
 */

import type { JsonObject } from '#base/util/json.js'
import type { ChatChoice } from '#contract/wire/chat-completions.js'

export interface ToolCall {
  /** Names the call in the result's `tool_call_id`. */
  readonly id: string
  readonly name: string
  /** null when the model wrote something that is not a JSON object. */
  readonly arguments: JsonObject | null
  /** The arguments as written. */
  readonly text: string
}

/** Every call of an answer, in order. */
export function toolCallsOf(message: Pick<ChatChoice['message'], 'content' | 'tool_calls'>): readonly ToolCall[] {
  const structured = message.tool_calls.flatMap((call, i) => readStructured(call, i))
  if (structured.length > 0) return structured
  const written = (message.content ?? '').matchAll(/<tool_call>\s*(.*?)\s*(?:<\/tool_call>|$)/gs)
  return [...written].flatMap((match, i) => readWritten(match[1] ?? '', i))
}

function readStructured(call: unknown, i: number): readonly ToolCall[] {
  const described = asObject(call)
  const called = asObject(described?.['function'])
  if (typeof called?.['name'] !== 'string') return []
  const text = typeof called['arguments'] === 'string' ? called['arguments'] : JSON.stringify(called['arguments'] ?? {})
  const id = typeof described?.['id'] === 'string' ? described['id'] : `call_${i}`
  return [{ id, name: called['name'], arguments: parseObject(text), text }]
}

function readWritten(source: string, i: number): readonly ToolCall[] {
  const call = parseObject(source)
  if (typeof call?.['name'] !== 'string') return []
  const given = call['arguments'] ?? {}
  const text = typeof given === 'string' ? given : JSON.stringify(given)
  return [{ id: `call_${i}`, name: call['name'], arguments: parseObject(text), text }]
}

function parseObject(text: string): JsonObject | null {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return null
  }
}

function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null
}
