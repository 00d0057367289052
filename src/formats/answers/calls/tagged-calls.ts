/**
 * Calls whose arguments stand in tags of their own, a text each: Qwen 3 Coder's and 3.5's `<parameter=city>`, GLM's `<arg_key>` and
 * `<arg_value>`. A text is JSON unless the schema of the tool says that the parameter is a string.
 */
import { parseExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonValue } from '#base/util/json.js'
import { createBlockCalls } from './block-calls.js'
import type { CallFormat, OfferedTools, WrittenCall } from './call-format.js'

export const qwen3Coder: CallFormat = {
  isShownBy: (template) =>
    template.includes('<tool_call>') && /<function=/.test(template) && /<parameter=/.test(template),
  createStream: (tools) => createBlockCalls({ open: '<tool_call>', close: '</tool_call>' }, readFunction, tools),
  frame: null,
}

export const glm: CallFormat = {
  isShownBy: (template) => template.includes('<tool_call>') && template.includes('<arg_key>'),
  createStream: (tools) => createBlockCalls({ open: '<tool_call>', close: '</tool_call>' }, readKeys, tools),
  frame: null,
}

const FUNCTION = /^\s*<function=([^>\n]+)>([\s\S]*?)<\/function>\s*$/
const PARAMETER = /\s*<parameter=([^>\n]+)>\n?([\s\S]*?)\n?<\/parameter>\s*/gy

function readFunction(block: string, tools: OfferedTools): readonly WrittenCall[] | null {
  const [, name, body = ''] = FUNCTION.exec(block) ?? []
  return name === undefined ? null : readPairs(name.trim(), body, PARAMETER, tools)
}

const NAME = /^\s*([^\s<]+)\s*([\s\S]*)$/
const PAIR = /\s*<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>\n?([\s\S]*?)\n?<\/arg_value>\s*/gy

function readKeys(block: string, tools: OfferedTools): readonly WrittenCall[] | null {
  const [, name, body = ''] = NAME.exec(block) ?? []
  return name === undefined ? null : readPairs(name, body, PAIR, tools)
}

/** @returns null unless the body is nothing but pairs */
function readPairs(name: string, body: string, pattern: RegExp, tools: OfferedTools): readonly WrittenCall[] | null {
  const members: string[] = []
  let at = 0
  for (;;) {
    pattern.lastIndex = at
    const found = pattern.exec(body)
    if (found === null) break
    const [whole, key = '', text = ''] = found
    members.push(`${JSON.stringify(key.trim())}: ${argumentOf(text, key.trim(), name, tools)}`)
    at += whole.length
  }
  return body.slice(at).trim() === '' ? [{ name, arguments: `{${members.join(', ')}}` }] : null
}

/** The text of an argument as JSON. */
function argumentOf(text: string, key: string, name: string, tools: OfferedTools): string {
  const properties = tools.parametersOf(name)?.['properties']
  const schema = isJsonObject(properties) ? properties[key] : undefined
  if (takesText(schema) && !(text.trim() === 'null' && takesNull(schema))) return JSON.stringify(text)
  const plain = PYTHON_WORDS[text.trim()] ?? text.trim()
  return isJson(plain) ? plain : JSON.stringify(text)
}

const PYTHON_WORDS: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }

function typesOf(schema: JsonValue | undefined): readonly JsonValue[] {
  if (!isJsonObject(schema)) return []
  const { type, enum: values } = schema
  if (type !== undefined) return Array.isArray(type) ? type : [type]
  const several = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(several)) return several.flatMap((one: JsonValue) => typesOf(one))
  return Array.isArray(values) && values.every((value) => typeof value === 'string') ? ['string'] : []
}

const takesText = (schema: JsonValue | undefined): boolean =>
  typesOf(schema).includes('string') && typesOf(schema).every((type) => type === 'string' || type === 'null')
const takesNull = (schema: JsonValue | undefined): boolean => typesOf(schema).includes('null')

function isJson(text: string): boolean {
  try {
    parseExact(text)
    return true
  } catch {
    return false
  }
}
