/**
 * JSON Schema as the grammar compiler understands it: refuses by name what it would ignore, writes out the two defaults
 * that it reads differently, and marks what it would get wrong for `schema-patches.ts`.
 *
 * xgrammar 0.1.27 skips keywords it does not know, and looks at one of `$ref`, `const`, `enum`, `anyOf`, `allOf`, `type` only,
 * in this order. An answer would then end without being valid, so such schemas are refused. Keywords outside the vocabularies
 * of JSON Schema are annotations and change nothing, as the specification says (2020-12, core 6.5).
 */
import { InvalidRequestError } from '#base/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { integerRangeRule, numberRangeRule } from './number-range.js'
import { type ConstantPatch, literalRule, type OthersPatch, type SchemaPatches } from './schema-patches.js'
import { lengthRule, PatternError, patternRule } from './string-pattern.js'

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

const STRING_KEYWORDS = ['pattern', 'minLength', 'maxLength'] as const
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const

const KEYWORDS_OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: BOUNDS,
}

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
const MAX_DEPTH = 100

/** What the compiler is given. */
export interface GrammarSchema {
  readonly schema: JsonValue
  readonly patches: SchemaPatches
}

/**
 * Checks a schema and returns what the compiler is given.
 *
 * An object without `properties` and an array without `items` may hold anything, as JSON Schema says; an object with
 * `properties` holds only those unless `additionalProperties` says otherwise, which JSON Schema allows an answer to do.
 *
 * @throws {InvalidRequestError} `unsupported_schema` naming the keyword and where it stands
 */
export function toGrammarSchema(schema: JsonValue): GrammarSchema {
  const marks = new Marks(schema)
  const converted = convert(schema, { path: '#', depth: 0, marks })
  const { constants, others, definitions } = marks
  if (!isJsonObject(converted) || others.length === 0) return { schema: converted, patches: { constants, others } }
  const known = isJsonObject(converted['$defs'] ?? null) ? (converted['$defs'] as JsonObject) : {}
  return { schema: { ...converted, $defs: { ...known, ...definitions } }, patches: { constants, others } }
}

/** Marks that the schema itself does not spell. */
class Marks {
  readonly constants: ConstantPatch[] = []
  readonly others: OthersPatch[] = []
  readonly definitions: Record<string, JsonValue> = {}
  readonly #prefix: string

  constructor(schema: JsonValue) {
    const text = JSON.stringify(schema) ?? ''
    let prefix = 'marked'
    while (text.includes(prefix)) prefix += 'x'
    this.#prefix = prefix
  }

  /** A text, as a constant or the name of a property, in place of what matches the rule. */
  text(rule: string): string {
    const mark = `${this.#prefix}t${this.constants.length}`
    this.constants.push({ mark, rule })
    return mark
  }

  /** A reference in place of the schema of properties that are not called like those listed. */
  othersThan(names: readonly string[], schema: JsonValue): JsonValue {
    // the compiler drops digits from the names of definitions
    const letters = Array.from(String(this.others.length), (digit) => 'abcdefghij'[Number(digit)]).join('')
    const mark = `${this.#prefix}o${letters}`
    this.others.push({ mark, names })
    this.definitions[mark] = schema === true ? {} : schema
    return { $ref: `#/$defs/${mark}` }
  }
}

interface Place {
  readonly path: string
  readonly depth: number
  readonly marks: Marks
}

function convert(given: JsonValue, place: Place): JsonValue {
  const { path, depth, marks } = place
  if (depth > MAX_DEPTH) throw unsupported(path, `is nested deeper than ${MAX_DEPTH} levels`)
  if (typeof given === 'boolean') return given
  if (!isJsonObject(given)) throw unsupported(path, 'must be an object or a boolean')
  const schema = withType(given)
  for (const name of Object.keys(schema)) {
    if (UNSUPPORTED.has(name)) throw unsupported(`${path}/${name}`, 'uses a keyword that answers cannot be held to')
  }
  checkSiblings(schema, path)
  checkValues(schema, path)
  const converted = { ...schema, ...subschemas(schema, place) }
  if (COMBINING.some((name) => Object.hasOwn(schema, name))) return converted
  const types = typesOf(schema)
  if (types.includes('string') && STRING_KEYWORDS.some((name) => Object.hasOwn(schema, name))) {
    return withOwnType(converted, 'string', marks.text(stringRule(schema, path)), place)
  }
  const isNumeric = types.includes('number') || types.includes('integer')
  if (isNumeric && BOUNDS.some((name) => Object.hasOwn(schema, name))) return withBoundedNumber(converted, types, place)
  const isAnyObject = schema['properties'] === undefined && schema['additionalProperties'] === undefined
  const isAnyArray = schema['items'] === undefined && schema['prefixItems'] === undefined
  return {
    ...converted,
    ...(types.includes('object') && isAnyObject ? { additionalProperties: true } : {}),
    ...(types.includes('array') && isAnyArray ? { items: true } : {}),
    ...(types.includes('object') ? { ...namedOthers(converted, marks), ...plainNames(converted, marks) } : {}),
  }
}

/**
 * Without a type the compiler takes most keywords to mean nothing; JSON Schema applies them to values of their type. An answer of that
 * type is valid, so it is held to it.
 */
function withType(schema: JsonObject): JsonObject {
  if (schema['type'] !== undefined || COMBINING.some((name) => Object.hasOwn(schema, name))) return schema
  const type = Object.entries(KEYWORDS_OF_TYPE).find(([, names]) => names.some((name) => Object.hasOwn(schema, name)))
  return type === undefined ? schema : { ...schema, type: type[0] }
}

/** The compiler would let an additional property repeat the name of a described one, with another value. */
function namedOthers(schema: JsonObject, marks: Marks): JsonObject {
  const { properties, additionalProperties: others } = schema
  if (!isJsonObject(properties ?? null) || others === undefined || others === false) return {}
  const names = Object.keys(properties as JsonObject)
  return names.length === 0 ? {} : { additionalProperties: marks.othersThan(names, others) }
}

/** The compiler writes the names of properties into its grammar as they are. */
function plainNames(schema: JsonObject, marks: Marks): JsonObject {
  const { properties, required } = schema
  if (!isJsonObject(properties ?? null)) return {}
  const names = Object.keys(properties as JsonObject).filter((name) => JSON.stringify(name) !== `"${name}"`)
  if (names.length === 0) return {}
  const markOf = new Map(names.map((name) => [name, marks.text(literalRule(JSON.stringify(name)))]))
  const entries = Object.entries(properties as JsonObject).map(([name, value]) => [markOf.get(name) ?? name, value])
  const needed = Array.isArray(required) ? { required: required.map((name) => markOf.get(String(name)) ?? name) } : {}
  return { properties: Object.fromEntries(entries), ...needed }
}

function withBoundedNumber(schema: JsonObject, types: readonly string[], place: Place): JsonValue {
  const { path, marks } = place
  const bound = (name: (typeof BOUNDS)[number]): number | null => {
    const value = schema[name]
    return typeof value === 'number' ? value : null
  }
  const [minimum, maximum, exclusiveMinimum, exclusiveMaximum] = BOUNDS.map(bound)
  const range = {
    minimum: minimum ?? null,
    maximum: maximum ?? null,
    exclusiveMinimum: exclusiveMinimum ?? null,
    exclusiveMaximum: exclusiveMaximum ?? null,
  }
  const rule = types.includes('number') ? numberRangeRule(range) : integerRangeRule(range)
  if (rule === null) throw unsupported(path, 'leaves no number of at most 15 digits between its bounds')
  return withOwnType(schema, 'number', marks.text(rule), place)
}

/** The rule of a string with a pattern or bounds of length. */
function stringRule(schema: JsonObject, path: string): string {
  const { pattern, minLength, maxLength } = schema
  if (pattern === undefined)
    return lengthRule(Number(minLength ?? 0), maxLength === undefined ? null : Number(maxLength))
  try {
    return patternRule(String(pattern))
  } catch (error) {
    if (error instanceof PatternError) throw unsupported(`${path}/pattern`, error.message)
    throw error
  }
}

/** A mark in place of values of one type; values of the schema's other types are left to the compiler. */
function withOwnType(
  schema: JsonObject,
  own: 'number' | 'string',
  mark: string,
  { path, depth, marks }: Place,
): JsonValue {
  const isOwn = (type: string): boolean => type === own || (own === 'number' && type === 'integer')
  const others = typesOf(schema).filter((type) => !isOwn(type))
  if (others.length === 0) return { ...definitionsOf(schema), const: mark }
  const keywords: readonly string[] = own === 'number' ? BOUNDS : STRING_KEYWORDS
  const rest = Object.fromEntries(Object.entries(schema).filter(([name]) => !keywords.includes(name)))
  return {
    ...definitionsOf(schema),
    anyOf: [{ const: mark }, convert({ ...rest, type: others }, { path, depth: depth + 1, marks })],
  }
}

function definitionsOf(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name === '$defs' || name === 'definitions'))
}

/** The schemas inside, converted, by keyword. */
function subschemas(schema: JsonObject, { path, depth, marks }: Place): JsonObject {
  const found: Record<string, JsonValue> = {}
  const child = (value: JsonValue, name: string): JsonValue =>
    convert(value, { path: `${path}/${name}`, depth: depth + 1, marks })
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
  for (const name of ['minLength', 'maxLength', 'minItems', 'maxItems']) {
    const value = schema[name]
    const isCount = value === undefined || (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0)
    if (!isCount) throw unsupported(`${path}/${name}`, 'must be a whole number')
  }
  const { minLength, maxLength } = schema
  if (Number(minLength ?? 0) > Number(maxLength ?? minLength ?? 0)) {
    throw unsupported(`${path}/minLength`, 'is more than "maxLength"')
  }
  if (pattern !== undefined && typeof pattern !== 'string') throw unsupported(`${path}/pattern`, 'must be a string')
  const hasLength = schema['minLength'] !== undefined || schema['maxLength'] !== undefined
  if (hasLength && (pattern !== undefined || format !== undefined)) {
    throw unsupported(path, 'has a length together with a pattern or format')
  }
  if (pattern !== undefined && format !== undefined) throw unsupported(path, 'has both a pattern and a format')
  for (const name of BOUNDS) {
    const value = schema[name]
    if (value === undefined) continue
    if (typeof value !== 'number') throw unsupported(`${path}/${name}`, 'must be a number')
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
