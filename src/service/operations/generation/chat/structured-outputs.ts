/**
 * `response_format` and `structured_outputs` of a chat request, or what stands for them → what the answer is held to.
 *
 * Errors are worded as vLLM's (v0.17). Schemas are checked where they are compiled, in the engine host.
 */

import { InvalidRequestError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import type { GrammarSpec } from '#inference/host/protocol.js'

/** An object of any shape. */
const ANY_OBJECT = '{"type":"object"}'
/** Kinds of constraint, as `structured_outputs` names them. */
const KINDS = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const
/** Options beside the constraint, with what an answer does here anyway: anything else is refused. */
const BACKEND_OPTIONS = ['whitespace_pattern', 'disable_additional_properties'] as const

/** Fields of other dialects, each with its kind: vLLM's before `structured_outputs`, llama.cpp's, Ollama's `format`. */
const OTHER_FIELDS = [
  ['guided_json', 'json'],
  ['guided_regex', 'regex'],
  ['guided_choice', 'choice'],
  ['guided_grammar', 'grammar'],
  ['grammar', 'grammar'],
  ['json_schema', 'json'],
  ['format', 'json'],
] as const

interface Constraints {
  readonly found: ReadonlyMap<(typeof KINDS)[number], JsonValue>
  readonly isWhitespaceFree: boolean
}

/**
 * @returns null if the answer is free
 * @throws {InvalidRequestError} naming the field
 */
export function toGrammar(request: ChatRequest): GrammarSpec | null {
  const { found, isWhitespaceFree } = readStructuredOutputs(request)
  const others = readOtherFields(request)
  const all = [...readResponseFormat(request), ...found, ...others.map(({ kind, value }) => [kind, value] as const)]
  if (all.length > 1) {
    throw several(
      others.length === 0 ? new Map(all) : new Map(all.map(([kind, value], i) => [`${i + 1}: ${kind}`, value])),
    )
  }
  const [entry] = all
  if (entry === undefined) return null
  const [kind, value] = entry
  const isLax = !isStrict(request)
  const schemaOf = (schema: string): GrammarSpec => ({ kind: 'json_schema', schema, isWhitespaceFree, isLax })
  switch (kind) {
    case 'json':
      return schemaOf(typeof value === 'string' ? value : stringifyExact(value))
    case 'json_object':
      return schemaOf(ANY_OBJECT)
    case 'regex':
      return { kind: 'regex', pattern: asText(value, kind) }
    case 'choice':
      return { kind: 'choice', choices: asChoices(value) }
    case 'grammar':
      return { kind: 'ebnf', grammar: asText(value, kind) }
    case 'structural_tag':
      return { kind: 'structural_tag', tag: typeof value === 'string' ? value : stringifyExact(value) }
  }
}

/** Whether the response format says `strict`: a schema that cannot be held to as a whole is then refused. */
function isStrict({ response_format: format }: ChatRequest): boolean {
  const described = (format as { json_schema?: JsonObject | null } | null | undefined)?.json_schema
  return described?.['strict'] === true
}

/** The field that a request's constraint comes from. */
export function grammarField(request: ChatRequest): string {
  if ((request.structured_outputs ?? null) !== null) return 'structured_outputs'
  return readOtherFields(request)[0]?.field ?? 'response_format'
}

interface OtherField {
  readonly field: (typeof OTHER_FIELDS)[number][0]
  readonly kind: (typeof KINDS)[number]
  readonly value: JsonValue
}

function readOtherFields(request: ChatRequest): readonly OtherField[] {
  return OTHER_FIELDS.flatMap(([field, kind]): OtherField[] => {
    const value = (request[field] ?? null) as JsonValue
    if (value === null) return []
    if (field === 'format' && value === 'json') return [{ field, kind: 'json_object', value: true }]
    if (field === 'format' && typeof value === 'string') {
      throw invalid('format', `format must be "json" or a JSON schema, got "${value.slice(0, 100)}".`)
    }
    if (Array.isArray(value) && value.length === 0) throw invalid(field, `${field} must hold at least one choice.`)
    if (typeof value === 'string' && value.trim() === '') throw invalid(field, `${field} must not be empty.`)
    return [{ field, kind, value }]
  })
}

function readResponseFormat(request: ChatRequest): Constraints['found'] {
  const format = request.response_format ?? null
  const none = new Map<(typeof KINDS)[number], JsonValue>()
  if (format === null) return none
  switch (format.type) {
    case 'text':
      return none
    case 'json_object': {
      // llama.cpp, Together and Fireworks have the schema here
      const { schema = null } = format as { schema?: JsonValue }
      if (schema === null) return new Map([['json_object', true]])
      if (isJsonObject(schema)) return new Map([['json', schema]])
      throw invalid('response_format', 'response_format.schema must be an object that is a JSON schema.')
    }
    case 'json_schema': {
      const { json_schema: described } = format as { json_schema?: JsonObject | null }
      if (typeof described !== 'object' || described === null) {
        throw invalid(
          'response_format',
          "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
        )
      }
      const schema = described['schema'] ?? null
      if (schema === null) {
        throw invalid('response_format', "response_format.json_schema must hold the schema in its field 'schema'.")
      }
      return new Map([['json', schema]])
    }
    case 'structural_tag':
      return new Map([['structural_tag', format as JsonObject]])
    default:
      throw invalid(
        'response_format',
        `response_format.type must be "text", "json_object", "json_schema" or "structural_tag", got "${format.type.slice(0, 100)}".`,
      )
  }
}

function readStructuredOutputs(request: ChatRequest): Constraints {
  const given = (request.structured_outputs ?? null) as JsonObject | null
  if (given === null) return { found: new Map(), isWhitespaceFree: false }
  const found = new Map(KINDS.flatMap((kind) => ((given[kind] ?? null) === null ? [] : [[kind, given[kind] ?? null]])))
  if (['json', 'regex', 'choice'].filter((kind) => found.has(kind as 'json')).length > 1) {
    throw invalid(
      'structured_outputs',
      "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
    )
  }
  if (found.size > 1) throw several(found)
  if (found.size === 0) {
    throw invalid(
      'structured_outputs',
      `You must use one kind of structured outputs constraint but none are specified: ${stringifyExact(given).slice(0, 200)}`,
    )
  }
  checkOptions(given)
  checkEmpty(found)
  const choice = request.tool_choice ?? null
  if (typeof choice === 'object' && choice !== null) {
    throw invalid(
      'structured_outputs',
      'You can only either use constraints for structured outputs or tools, not both.',
    )
  }
  return { found, isWhitespaceFree: given['disable_any_whitespace'] === true }
}

function checkOptions(given: JsonObject): void {
  const backend = given['_backend'] ?? null
  if (backend !== null && backend !== 'xgrammar' && backend !== 'auto') {
    throw invalid(
      'structured_outputs',
      'Request-level structured output backend selection is not supported: only "xgrammar".',
    )
  }
  for (const name of BACKEND_OPTIONS) {
    const value = given[name] ?? null
    if (value !== null && value !== false) {
      throw invalid('structured_outputs', `structured_outputs.${name} is not supported by xgrammar.`)
    }
  }
}

function checkEmpty(found: Constraints['found']): void {
  const isBlank = (value: JsonValue | undefined): boolean => typeof value === 'string' && value.trim() === ''
  if (isBlank(found.get('json')))
    throw invalid('structured_outputs', 'structured_outputs.json cannot be an empty string')
  if (isBlank(found.get('grammar'))) {
    throw invalid('structured_outputs', 'structured_outputs.grammar cannot be an empty string')
  }
  if (found.has('json_object') && found.get('json_object') !== true) {
    throw invalid(
      'structured_outputs',
      'structured_outputs.json_object must be True if set; leave it out for an answer that is free',
    )
  }
}

function asText(value: JsonValue, kind: string): string {
  if (typeof value === 'string') return value
  throw invalid('structured_outputs', `structured_outputs.${kind} must be a string.`)
}

function asChoices(value: JsonValue): readonly string[] {
  if (!Array.isArray(value) || !value.every((choice) => typeof choice === 'string')) {
    throw invalid('structured_outputs', 'structured_outputs.choice must be a list of strings.')
  }
  if (value.length === 0) throw invalid('structured_outputs', "Choice '[]' cannot be an empty list")
  return value
}

function several(found: ReadonlyMap<string, JsonValue>): InvalidRequestError {
  const listed = stringifyExact(Object.fromEntries(found)).slice(0, 300)
  return invalid(
    'structured_outputs',
    `You can only use one kind of structured outputs constraint but multiple are specified: ${listed}`,
  )
}

function invalid(param: string, message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', message, { param })
}
