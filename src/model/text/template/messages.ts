/**
 * Turns chat messages from the form of a request into the form that templates expect.
 *
 * Follows vLLM's chat parsing (v0.17): text parts are joined or kept by the template's content format, tool-call
 * arguments become objects, null content becomes empty, reasoning is given under both of its names. Keys that are
 * not part of a chat message are left out. Deviations: `developer` is `system` for a template that does not name it, because such
 * templates drop it or write a header that their model never saw; the arguments of a call that an answer of this service made stay as
 * the model wrote them, so that the next prompt begins with what was sampled; and so do those that are no JSON object, whoever made them:
 * what a model wrote must come back to it, or its conversation is over.
 */
import { MEDIA_PARTS, TEXT_PART_FIELDS } from '#base/content-parts.js'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

import { INVALID_JSON, isOwnCall } from '../../../formats/answers/call-id.js'
import type { TemplateFacts } from './template-facts.js'
import { writtenJson } from './written-json.js'

/** One message of a conversation as the API defines it; checked when rendered. */
export type ChatMessage = JsonObject

const textFields: ReadonlyMap<string, string> = new Map(Object.entries(TEXT_PART_FIELDS))
const mediaTypes: ReadonlySet<string> = new Set(MEDIA_PARTS)

type ContentRules = Pick<TemplateFacts, 'contentFormat' | 'testsForString' | 'knowsDeveloper'>

/**
 * Normalizes messages for a template.
 *
 * @throws {InvalidRequestError} `invalid_value` with the path of the wrong field
 * @throws {AppError} `unknown_part_type` (not implemented) for a content part of unknown type
 */
export function normalizeMessages(messages: readonly JsonValue[], rules: ContentRules): JsonObject[] {
  return messages.map((message, index) => normalizeMessage(message, `messages[${index}]`, rules))
}

function normalizeMessage(message: JsonValue, path: string, rules: ContentRules): JsonObject {
  if (!isJsonObject(message)) throw invalid(path, 'must be an object')
  const role = message['role']
  if (typeof role !== 'string') throw invalid(`${path}.role`, 'must be a string')
  const normalized: Record<string, JsonValue> = {
    role: role === 'developer' && !rules.knowsDeveloper ? 'system' : role,
    content: normalizeContent(message['content'] ?? null, `${path}.content`, rules),
  }
  for (const key of ['name', 'tool_call_id']) {
    const value = message[key]
    if (typeof value === 'string') normalized[key] = value
    else if (value !== undefined && value !== null) throw invalid(`${path}.${key}`, 'must be a string')
  }
  const toolCalls = message['tool_calls'] ?? null
  if (toolCalls !== null) {
    if (!Array.isArray(toolCalls)) throw invalid(`${path}.tool_calls`, 'must be a list')
    const calls = toolCalls.map((call, i) => normalizeToolCall(call, `${path}.tool_calls[${i}]`))
    if (calls.length > 0) normalized['tool_calls'] = calls
  }
  const reasoning = message['reasoning'] ?? message['reasoning_content'] ?? null
  if (reasoning !== null) {
    if (typeof reasoning !== 'string') throw invalid(`${path}.reasoning`, 'must be a string')
    normalized['reasoning'] = reasoning
    normalized['reasoning_content'] = reasoning
  }
  return normalized
}

function normalizeContent(content: JsonValue, path: string, rules: ContentRules): JsonValue {
  const wantsParts = rules.contentFormat === 'openai'
  if (content === null) return wantsParts && !rules.testsForString ? [] : ''
  if (typeof content === 'string') {
    return wantsParts && !rules.testsForString ? [{ type: 'text', text: content }] : content
  }
  if (!Array.isArray(content)) throw invalid(path, 'must be a string or a list of parts')
  const texts = content.flatMap((part, i) => textOfPart(part, `${path}[${i}]`))
  return wantsParts ? texts.map((text) => ({ type: 'text', text })) : texts.join('\n')
}

/** The text of a part in a list of none or one: a null text is skipped. */
function textOfPart(part: JsonValue, path: string): string[] {
  if (typeof part === 'string') return [part]
  if (!isJsonObject(part)) throw invalid(path, 'must be a content part')
  const type = part['type']
  if (type === undefined || type === null) {
    if (Object.keys(part).some((key) => mediaTypes.has(key))) throw noMedia(path)
    throw new InvalidRequestError('invalid_value', "Missing 'type' field in multimodal part.", {
      param: `${path}.type`,
    })
  }
  if (typeof type !== 'string') throw invalid(`${path}.type`, 'must be a string')
  if (mediaTypes.has(type)) throw noMedia(path)
  const field = textFields.get(type)
  if (field === undefined) {
    throw new AppError('not_implemented', 'unknown_part_type', `Unknown part type: ${type}`, { param: path })
  }
  const text = part[field] ?? null
  if (text === null) return []
  if (typeof text !== 'string') throw invalid(`${path}.${field}`, 'must be a string')
  return [text]
}

function normalizeToolCall(call: JsonValue, path: string): JsonObject {
  if (!isJsonObject(call)) throw invalid(path, 'must be an object')
  const callee = call['function']
  if (!isJsonObject(callee)) throw invalid(`${path}.function`, 'must be an object')
  if (typeof callee['name'] !== 'string') throw invalid(`${path}.function.name`, 'must be a string')
  const isOwn = isOwnCall(call['id'])
  return {
    ...call,
    function: { ...callee, arguments: parseArguments(callee['arguments'], `${path}.function.arguments`, isOwn) },
  }
}

/** @param isOwn the model wrote the text, and reads it again as it was */
function parseArguments(value: JsonValue | undefined, path: string, isOwn: boolean): JsonObject {
  if (value === undefined || value === null || value === '') return {}
  if (isJsonObject(value)) return value
  if (typeof value !== 'string') throw invalid(path, 'must be a JSON object or a string that holds one')
  const parsed = objectIn(value)
  if (parsed === null) return writtenJson(value, { [INVALID_JSON]: value })
  return isOwn ? writtenJson(value, parsed) : parsed
}

/** The object that a text holds; null where it holds none. */
function objectIn(text: string): JsonObject | null {
  try {
    const parsed = parseExact(text)
    return isJsonObject(parsed) ? parsed : null
  } catch {
    return null
  }
}

function noMedia(path: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', `${path} is media, but the model reads text only`, { param: path })
}

function invalid(path: string, expectation: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', `${path} ${expectation}`, { param: path })
}
