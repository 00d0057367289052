/**
 * Tool calls in what a model wrote: the format of Hermes and of Qwen 2.5 and 3 (non-coder).
 *
 * `<tool_call>`, a JSON object with `name` and `arguments`, `</tool_call>`, repeated. Follows vLLM's hermes parser: one
 * malformed block makes the whole output plain content; the last call may lack its closing tag. Knows finished output
 * only, not streams.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

export interface ToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: {
    readonly name: string
    /** A JSON object as text, spaced as Python's `json.dumps` does. */
    readonly arguments: string
  }
}

export interface ParsedOutput {
  /** Text before the first call; null when there is none but white space. All text when there are no calls. */
  readonly content: string | null
  readonly toolCalls: readonly ToolCall[]
}

const openTag = '<tool_call>'
const blocks = /<tool_call>(.*?)<\/tool_call>|<tool_call>(.*)/gs

/**
 * Parses the output of one turn, without its end-of-turn token.
 *
 * @param createId makes the id of a call, for example `chatcmpl-tool-` and 32 hex digits
 */
export function parseToolCalls(text: string, createId: () => string): ParsedOutput {
  const first = text.indexOf(openTag)
  if (first === -1) return { content: text, toolCalls: [] }
  const calls: { name: string; arguments: JsonObject }[] = []
  for (const [, closed, unclosed] of text.matchAll(blocks)) {
    const call = parseCall(closed ?? unclosed ?? '')
    if (call === null) return { content: text, toolCalls: [] }
    calls.push(call)
  }
  const before = text.slice(0, first)
  return {
    content: before.trim() === '' ? null : before,
    toolCalls: calls.map((call) => ({
      id: createId(),
      type: 'function',
      function: { name: call.name, arguments: toPythonJson(call.arguments) },
    })),
  }
}

function parseCall(block: string): { name: string; arguments: JsonObject } | null {
  const value = tryParse(block)
  if (!isJsonObject(value)) return null
  const { name, arguments: given = {} } = value
  return typeof name === 'string' && isJsonObject(given) ? { name, arguments: given } : null
}

function tryParse(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** JSON with `", "` and `": "` between elements and non-ASCII characters kept, as `json.dumps(ensure_ascii=False)`. */
export function toPythonJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(toPythonJson).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${toPythonJson(item)}`)
    return `{${entries.join(', ')}}`
  }
  return JSON.stringify(value)
}
