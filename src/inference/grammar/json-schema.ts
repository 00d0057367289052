/**
 * JSON Schema as the grammar compiler understands it: refuses by name what it would ignore, and writes out the two defaults
 * that it reads differently.
 *
 * xgrammar 0.1.27 skips keywords it does not know, and looks at one of `$ref`, `const`, `enum`, `anyOf`, `allOf`, `type` only,
 * in this order. An answer would then end without being valid, so such schemas are refused. Keywords outside the vocabularies
 * of JSON Schema are annotations and change nothing, as the specification says (2020-12, core 6.5).
 */
import { InvalidRequestError } from '#base/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

const COMBINING = ['$ref', 'const', 'enum', 'anyOf', 'oneOf', 'allOf'] as const

/** Keywords that say what a value must be, which are honoured. */
const ASSERTIONS = new Set<string>([
  ...COMBINING,
  'type',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
])

/** Keywords of JSON Schema that say what a value must be, which no grammar here can hold an answer to. */
const UNSUPPORTED = new Set([
  'multipleOf',
  'uniqueItems',
  'contains',
  'minContains',
  'maxContains',
  'minProperties',
  'maxProperties',
  'patternProperties',
  'propertyNames',
  'dependencies',
  'dependentRequired',
  'dependentSchemas',
  'unevaluatedItems',
  'unevaluatedProperties',
  'additionalItems',
  'not',
  'if',
  'then',
  'else',
  '$dynamicRef',
  '$recursiveRef',
])

/** Formats that the compiler knows. */
const FORMATS = new Set([
  'email',
  'date',
  'time',
  'date-time',
  'duration',
  'ipv4',
  'ipv6',
  'hostname',
  'uuid',
  'uri',
  'uri-reference',
  'uri-template',
  'json-pointer',
  'relative-json-pointer',
])

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
const MAX_DEPTH = 100

/**
 * Checks a schema and returns what the compiler is given.
 *
 * An object without `properties` and an array without `items` may hold anything, as JSON Schema says; an object with
 * `properties` holds only those unless `additionalProperties` says otherwise, which JSON Schema allows an answer to do.
 *
 * @throws {InvalidRequestError} `unsupported_schema` naming the keyword and where it stands
 */
export function toGrammarSchema(schema: JsonValue): JsonValue {
  return convert(schema, '#', 0)
}

function convert(schema: JsonValue, path: string, depth: number): JsonValue {
  if (depth > MAX_DEPTH) throw unsupported(path, `is nested deeper than ${MAX_DEPTH} levels`)
  if (typeof schema === 'boolean') return schema
  if (!isJsonObject(schema)) throw unsupported(path, 'must be an object or a boolean')
  for (const name of Object.keys(schema)) {
    if (UNSUPPORTED.has(name)) throw unsupported(`${path}/${name}`, 'uses a keyword that answers cannot be held to')
  }
  checkSiblings(schema, path)
  checkValues(schema, path)
  const converted = { ...schema, ...subschemas(schema, path, depth) }
  if (COMBINING.some((name) => Object.hasOwn(schema, name))) return converted
  const types = typesOf(schema)
  const isAnyObject = schema['properties'] === undefined && schema['additionalProperties'] === undefined
  const isAnyArray = schema['items'] === undefined && schema['prefixItems'] === undefined
  return {
    ...converted,
    ...(types.includes('object') && isAnyObject ? { additionalProperties: true } : {}),
    ...(types.includes('array') && isAnyArray ? { items: true } : {}),
  }
}

/** The schemas inside, converted, by keyword. */
function subschemas(schema: JsonObject, path: string, depth: number): JsonObject {
  const found: Record<string, JsonValue> = {}
  const child = (value: JsonValue, name: string): JsonValue => convert(value, `${path}/${name}`, depth + 1)
  for (const name of ['items', 'additionalProperties']) {
    const value = schema[name]
    if (value === undefined) continue
    if (Array.isArray(value)) throw unsupported(`${path}/${name}`, 'must be one schema; use "prefixItems" for several')
    found[name] = child(value, name)
  }
  for (const name of ['prefixItems', 'anyOf', 'oneOf', 'allOf']) {
    const value = schema[name]
    if (value === undefined) continue
    if (!Array.isArray(value) || value.length === 0) throw unsupported(`${path}/${name}`, 'must be a list of schemas')
    found[name] = value.map((item, index) => child(item, `${name}/${index}`))
  }
  for (const name of ['properties', '$defs', 'definitions']) {
    const value = schema[name]
    if (value === undefined) continue
    if (!isJsonObject(value)) throw unsupported(`${path}/${name}`, 'must be an object of schemas')
    found[name] = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, child(item, `${name}/${key}`)]))
  }
  return found
}

/** Beside a keyword that decides alone, no other may say anything; `type` may repeat what `const` and `enum` imply. */
function checkSiblings(schema: JsonObject, path: string): void {
  const deciding = COMBINING.find((name) => Object.hasOwn(schema, name))
  if (deciding === undefined) return
  const isListed = deciding === 'const' || deciding === 'enum'
  const other = Object.keys(schema).find(
    (name) => name !== deciding && ASSERTIONS.has(name) && !(isListed && name === 'type'),
  )
  if (other !== undefined) throw unsupported(`${path}/${other}`, `stands beside "${deciding}", which is not supported`)
  const values = deciding === 'const' ? [schema['const'] ?? null] : (schema['enum'] ?? [])
  if (!isListed || schema['type'] === undefined || !Array.isArray(values)) return
  const types = typesOf(schema)
  const index = values.findIndex((value) => !types.some((type) => isOfType(value, type)))
  if (index >= 0) throw unsupported(`${path}/${deciding}`, `has a value that is not of type ${types.join(' or ')}`)
}

function checkValues(schema: JsonObject, path: string): void {
  for (const type of typesOf(schema)) {
    if (!TYPES.includes(type)) throw unsupported(`${path}/type`, `is "${type}", expected one of ${TYPES.join(', ')}`)
  }
  const { $ref: ref, allOf, oneOf, pattern, format } = schema
  if (ref !== undefined && (typeof ref !== 'string' || !ref.startsWith('#'))) {
    throw unsupported(`${path}/$ref`, 'must point into the same schema (#/...)')
  }
  if (Array.isArray(allOf) && allOf.length > 1) throw unsupported(`${path}/allOf`, 'has more than one schema')
  if (Array.isArray(oneOf) && !areDisjoint(oneOf)) {
    throw unsupported(
      `${path}/oneOf`,
      'has schemas that are not told apart by their type or a required constant',
      'anyOf',
    )
  }
  if (typeof format === 'string' && !FORMATS.has(format))
    throw unsupported(`${path}/format`, `"${format}" is not known`)
  const hasLength = schema['minLength'] !== undefined || schema['maxLength'] !== undefined
  if (hasLength && (pattern !== undefined || format !== undefined)) {
    throw unsupported(path, 'has a length together with a pattern or format')
  }
  if (pattern !== undefined && format !== undefined) throw unsupported(path, 'has both a pattern and a format')
  const isNumber = typesOf(schema).includes('number')
  for (const name of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']) {
    if (schema[name] === undefined) continue
    if (isNumber) throw unsupported(`${path}/${name}`, 'bounds a "number", which is supported for "integer" only')
    if (!Number.isSafeInteger(schema[name])) throw unsupported(`${path}/${name}`, 'must be an integer')
  }
  checkRequired(schema, path)
}

/** A required property that nothing describes could never be written. */
function checkRequired(schema: JsonObject, path: string): void {
  const { required = [], properties = {}, additionalProperties } = schema
  if (!Array.isArray(required)) throw unsupported(`${path}/required`, 'must be a list of names')
  if (!isJsonObject(properties)) return
  const missing = required.find((name) => typeof name !== 'string' || !Object.hasOwn(properties, name))
  if (missing === undefined) return
  const what = `names ${JSON.stringify(missing)}, which "properties" does not describe`
  throw unsupported(`${path}/required`, additionalProperties === undefined ? what : `${what}; list it there`)
}

/** Whether no value can be valid under two of the schemas: other types, or another constant in a property all require. */
function areDisjoint(schemas: readonly JsonValue[]): boolean {
  const types = schemas.flatMap((schema) => (isJsonObject(schema) ? typesOf(schema) : ['?']))
  const isTyped = schemas.every((schema) => isJsonObject(schema) && schema['type'] !== undefined)
  const hasBothNumbers = types.includes('number') && types.includes('integer')
  if (isTyped && new Set(types).size === types.length && !hasBothNumbers) return true
  const constants = schemas.map(requiredConstants)
  const names = [...(constants[0]?.keys() ?? [])]
  return names.some((name) => {
    const values = constants.flatMap((found) => found.get(name) ?? [])
    return constants.every((found) => found.has(name)) && new Set(values).size === values.length
  })
}

/** Required properties that must have one of a few values, which are given as JSON text. */
function requiredConstants(schema: JsonValue): Map<string, string[]> {
  const found = new Map<string, string[]>()
  if (!isJsonObject(schema) || !isJsonObject(schema['properties'] ?? null)) return found
  const required = Array.isArray(schema['required']) ? schema['required'] : []
  for (const [name, property] of Object.entries(schema['properties'] as JsonObject)) {
    if (!required.includes(name) || !isJsonObject(property)) continue
    if (property['const'] !== undefined) found.set(name, [JSON.stringify(property['const'])])
    else if (Array.isArray(property['enum']))
      found.set(
        name,
        property['enum'].map((value) => JSON.stringify(value)),
      )
  }
  return found
}

function typesOf(schema: JsonObject): string[] {
  const { type = [] } = schema
  return (Array.isArray(type) ? type : [type]).map(String)
}

function isOfType(value: JsonValue, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isJsonObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

function unsupported(path: string, what: string, instead?: string): InvalidRequestError {
  return new InvalidRequestError('unsupported_schema', `JSON schema at ${path} ${what}`, {
    hint:
      instead === undefined ? 'the keywords that work are listed in the API documentation' : `use "${instead}" instead`,
  })
}
