/**
 * `tools`, `tool_choice` and `parallel_tool_calls` of a chat request: what is read out of the answer, and what it is held to.
 *
 * Errors are worded as vLLM's (v0.17). Omitted, `tool_choice` is `auto` where there are tools.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import type { GrammarSpec } from '#inference/host/protocol.js'
import type { ToolMode } from './answer-text.js'

// A JSON Schema that becomes a part of another one: its references count from the root, so they change with its place.
//
// Values (`const`, `enum`, ...) and names of properties are left alone, even those called `$ref`.

/** Keywords whose value is data. */
const VALUES = new Set(['const', 'enum', 'default', 'examples', 'required'])
/** Keywords whose value has a schema for each name. */
const BY_NAME = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'])

/**
 * The schema with every reference to a place in it (`#`, `#/...`) pointing to the same place below `root`.
 *
 * @param root where the schema will stand, as a JSON Pointer fragment: `#/items/anyOf/0`
 */
export function movedSchema(schema: JsonValue, root: string): JsonValue {
  if (Array.isArray(schema)) return schema.map((item) => movedSchema(item, root))
  if (!isJsonObject(schema)) return schema
  const entries = Object.entries(schema).map(([name, value]): [string, JsonValue] => {
    if (name === '$ref' && typeof value === 'string') return [name, value.replace(/^#(?=$|\/)/, () => root)]
    if (VALUES.has(name)) return [name, value]
    if (!BY_NAME.has(name) || !isJsonObject(value)) return [name, movedSchema(value, root)]
    const inner = Object.entries(value).map(([key, item]) => [key, movedSchema(item, root)])
    return [name, Object.fromEntries(inner)]
  })
  return Object.fromEntries(entries)
}

const CORRECT_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'

export interface ToolUse {
  readonly mode: ToolMode
  /** What a required or named call is held to. */
  readonly grammar: GrammarSpec | null
}

/** @throws {InvalidRequestError} naming `tools` or `tool_choice` */
export function toToolUse(request: ChatRequest): ToolUse {
  const tools = request.tools ?? []
  checkTools(tools)
  const choice = request.tool_choice ?? (tools.length > 0 ? 'auto' : 'none')
  const isParallel = request.parallel_tool_calls ?? true
  if (choice === 'none') return { mode: { kind: 'none' }, grammar: null }
  if (tools.length === 0) throw invalid('tool_choice', 'When using `tool_choice`, `tools` must be set.')
  const names = tools.map((tool) => tool.function.name)
  if (choice === 'auto') {
    const parameters = new Map(
      tools.map((tool) => [tool.function.name, (tool.function.parameters ?? {}) as JsonObject]),
    )
    return { mode: { kind: 'auto', isParallel, names, parameters }, grammar: null }
  }
  if (choice === 'required') {
    return {
      mode: { kind: 'required', isParallel, names },
      grammar: schemaGrammar(listOfCalls(tools, isParallel), tools),
    }
  }
  if (typeof choice === 'string') {
    throw invalid(
      'tool_choice',
      `Invalid value for \`tool_choice\`: ${choice.slice(0, 100)}! Only named tools, "none", "auto" or "required" are supported.`,
    )
  }
  const name = namedFunction(choice as JsonObject)
  const index = tools.findIndex((candidate) => candidate.function.name === name)
  const tool = tools[index]
  if (tool === undefined) {
    throw invalid('tool_choice', 'The tool specified in `tool_choice` does not match any of the specified `tools`')
  }
  return { mode: { kind: 'named', name }, grammar: { ...schemaGrammar(parametersOf(tool, index), [tool]), tool: name } }
}

type Tool = NonNullable<ChatRequest['tools']>[number]

function checkTools(tools: readonly Tool[]): void {
  for (const [index, tool] of tools.entries()) {
    const type = tool.type ?? 'function'
    if (type === 'function') continue
    throw invalid('tools', `tools[${index}].type must be "function", got "${type.slice(0, 100)}".`)
  }
}

function namedFunction(choice: JsonObject): string {
  const { type, function: called } = choice
  if (type !== undefined && type !== 'function') {
    const given = JSON.stringify(type).slice(0, 100)
    throw invalid('tool_choice', `Invalid value for \`type\`: ${given} in \`tool_choice\`! ${CORRECT_USAGE}`)
  }
  if (typeof called !== 'object' || called === null || Array.isArray(called)) {
    throw invalid(
      'tool_choice',
      `Invalid value for \`function\`: ${JSON.stringify(called ?? null).slice(0, 100)} in \`tool_choice\`! ${CORRECT_USAGE}`,
    )
  }
  const { name } = called as JsonObject
  if (typeof name !== 'string') {
    throw invalid('tool_choice', `Expected field \`name\` in \`function\` in \`tool_choice\`! ${CORRECT_USAGE}`)
  }
  return name
}

/** More than an answer needs: a small model begins another call until its budget ends, and none is whole then. */
const MOST_CALLS = 16

/** A list of calls, each with the name first, so that its arguments can be held to the schema of that tool. */
function listOfCalls(tools: readonly Tool[], isParallel: boolean): JsonObject {
  const definitions = new Map<string, string>()
  const items = tools.map((tool, index) => {
    // its references stay inside, whatever it calls itself
    const { $id: _, ...parameters } = parametersOf(tool, index)
    for (const [name, definition] of Object.entries((parameters['$defs'] ?? {}) as JsonObject)) {
      const text = stringifyExact(definition)
      if ((definitions.get(name) ?? text) !== text) {
        throw invalid('tools', `Tool definition '${name}' has multiple schemas, which is not supported.`)
      }
      definitions.set(name, text)
    }
    return {
      type: 'object',
      properties: {
        name: { enum: [tool.function.name] },
        parameters: movedSchema(parameters, `#/items/anyOf/${index}/properties/parameters`),
      },
      required: ['name', 'parameters'],
    }
  })
  return { type: 'array', minItems: 1, maxItems: isParallel ? MOST_CALLS : 1, items: { anyOf: items } }
}

/** A tool without parameters takes an empty object. Arguments that are none could not be sent back as part of the conversation. */
export function parametersOf(tool: Tool, index: number): JsonObject {
  const given = (tool.function.parameters ?? null) as JsonObject | null
  if (given === null || Object.keys(given).length === 0) return { type: 'object', properties: {} }
  const types = [given['type'] ?? 'object'].flat()
  if (types.includes('object') || !types.every((type) => JSON_TYPES.has(type))) return given
  throw invalid(
    'tools',
    `tools[${index}].function.parameters must be the schema of an object, got ${types.join(', ')}.`,
  )
}

/** Others than objects; what is no type at all is refused with the schema. */
const JSON_TYPES: ReadonlySet<unknown> = new Set(['array', 'string', 'number', 'integer', 'boolean', 'null'])

/** @param tools those whose parameters are in it: if one is strict, all is */
function schemaGrammar(schema: JsonObject, tools: readonly Tool[]): Extract<GrammarSpec, { kind: 'json_schema' }> {
  const isLax = !tools.some(isStrictTool)
  return { kind: 'json_schema', schema: stringifyExact(schema), isWhitespaceFree: false, isLax }
}

/** Of a tool that another API than chat's calls strict: no template is shown it, for what trained a model was rendered without. */
const STRICT = Symbol('strict')

/** The tool, strict where `isStrict` says so. */
export function withStrict(tool: Tool, isStrict: unknown): Tool {
  return isStrict === true ? Object.assign(tool, { [STRICT]: true }) : tool
}

/** Whether a tool's parameters must be held to as a whole, or refused. */
export function isStrictTool(tool: Tool): boolean {
  return tool.function['strict'] === true || STRICT in tool
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
