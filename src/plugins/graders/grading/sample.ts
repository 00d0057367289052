/**
 * An answer as graders see it, the namespace `sample`: its text, the same as JSON where it is any, its calls of
 * tools, and its choices.
 */
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

/** @param given the text of an answer, or an answer of chat, an object with `choices`, which may call tools */
export function toSample(given: string | JsonObject): JsonObject {
  const choices = typeof given === 'string' ? [choiceOf(given)] : choicesOf(given)
  const [first] = choices
  const message = isJsonObject(first) && isJsonObject(first['message']) ? first['message'] : {}
  const { content, tool_calls: calls } = message
  const text = typeof content === 'string' ? content : ''
  const json = readJson(text)
  return {
    output_text: text,
    ...(json === undefined ? {} : { output_json: json }),
    output_tools: Array.isArray(calls) ? calls : [],
    choices,
    output_audio: null,
  }
}

const choiceOf = (content: string): JsonObject => ({
  index: 0,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
})

function choicesOf({ choices }: JsonObject): readonly JsonValue[] {
  return Array.isArray(choices) ? choices : []
}

function readJson(text: string): JsonValue | undefined {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}
