/**
 * The keywords of JSON Schema as a grammar can honour them: which are, which are refused by name, and what may stand beside what.
 *
 * The documentation's table says the same (`test/unit/inference/grammar/schema/json-schema.test.ts` compares them).
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { stringifyExact } from '#base/json/exact-json.js'
import { isExactNumber, valueOfNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { isPatternWithin } from './pattern-inclusion.js'
import { PatternError } from './pattern-reader.js'
import { formatDefinition, readFormat } from './string-format.js'

export const COMBINING = ['$ref', 'const', 'enum', 'anyOf', 'oneOf', 'allOf'] as const

/** Keywords that say what a value must be, which are honoured. */
export const ASSERTIONS = new Set<string>([
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
export const UNSUPPORTED = new Set([
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

export const STRING_KEYWORDS = ['pattern', 'minLength', 'maxLength', 'format'] as const
export const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'] as const

const ALTERNATIVES = new Set<string>(['anyOf', 'oneOf', 'allOf'])
const SHAPES = ['properties', 'items', 'prefixItems', 'additionalProperties', ...STRING_KEYWORDS, ...BOUNDS]

const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
export const IMPOSSIBLE = 'is false, which no answer can satisfy'

/** Beside a keyword that decides alone, no other may say anything; `type` may repeat what `const` and `enum` imply. */
export function checkSiblings(schema: JsonObject, path: string): void {
  const deciding = COMBINING.find((name) => Object.hasOwn(schema, name))
  if (deciding === undefined) return
  const isListed = deciding === 'const' || deciding === 'enum'
  const other = Object.keys(schema).find(
    (name) => name !== deciding && ASSERTIONS.has(name) && !(isListed && name === 'type'),
  )
  if (other !== undefined) throw besideAnother(schema, { path, deciding, other })
  const values = deciding === 'const' ? [schema['const'] ?? null] : (schema['enum'] ?? [])
  if (!isListed || schema['type'] === undefined || !Array.isArray(values)) return
  const types = typesOf(schema)
  const index = values.findIndex((value) => !types.some((type) => isOfType(value, type)))
  if (index >= 0) throw unsupported(`${path}/${deciding}`, `has a value that is not of type ${types.join(' or ')}`)
}

/** Where one of the two must go, it is the one that says less: alternatives rather than the shape of what is asked for. */
function besideAnother(
  schema: JsonObject,
  { path, deciding, other }: { readonly path: string; readonly deciding: string; readonly other: string },
): UnheldError {
  const isShape = SHAPES.some((name) => Object.hasOwn(schema, name))
  const left = ALTERNATIVES.has(deciding) && isShape ? deciding : other
  const what = `stands beside "${deciding}", which is not supported`
  return new UnheldError({ path, named: other, keywords: [left] }, what, (given) => without(given, [left]))
}

export function checkValues(schema: JsonObject, path: string): void {
  for (const type of typesOf(schema)) {
    if (!TYPES.includes(type)) throw unsupported(`${path}/type`, `is "${type}", expected one of ${TYPES.join(', ')}`)
  }
  const { $ref: ref, $id: id, allOf, oneOf, enum: listed, pattern, format } = schema
  if (Array.isArray(listed) && listed.length === 0)
    throw unsupported(`${path}/enum`, 'is empty: no answer can satisfy it')
  if (ref !== undefined && (typeof ref !== 'string' || (ref !== '#' && !ref.startsWith('#/')))) {
    throw unheld(path, '$ref', 'must point into the same schema (#/...)')
  }
  if (path !== '#' && id !== undefined && JSON.stringify(schema).includes('"$ref":')) {
    throw unsupported(`${path}/$id`, 'starts a schema of its own, in which a "$ref" would point elsewhere')
  }
  if (Array.isArray(allOf) && allOf.length > 1) {
    const first = (given: JsonObject): JsonObject => ({ ...given, allOf: allOf.slice(0, 1) })
    throw new UnheldError({ path, named: 'allOf', keywords: ['allOf'] }, 'has more than one schema', first)
  }
  if (Array.isArray(oneOf) && !areDisjoint(oneOf)) {
    const what = 'has schemas that are not told apart by their type or a required constant'
    const toAny = (given: JsonObject): JsonObject => ({ ...without(given, ['oneOf']), anyOf: oneOf })
    throw new UnheldError({ path, named: 'oneOf', keywords: ['oneOf'] }, what, toAny, 'anyOf')
  }
  const formatted = schema['type'] === undefined ? ['string'] : typesOf(schema)
  // beside a pattern a format that nobody knows is the name of that pattern, as zod writes it
  if (typeof format === 'string' && pattern === undefined && readFormat(format, formatted) === undefined)
    throw unheld(path, 'format', `"${format}" is not known`)
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
  if (typeof pattern === 'string' && typeof format === 'string') checkPatternOfFormat(pattern, format, path)
  for (const name of BOUNDS) {
    const value = schema[name]
    if (value === undefined) continue
    if (typeof value !== 'number' && !isExactNumber(value)) throw unsupported(`${path}/${name}`, 'must be a number')
  }
  checkProperties(schema, path)
}

/** Both can be held to only where counting stays small. */
export function lengthBeside(schema: JsonObject, path: string): UnheldError {
  const keywords = ['minLength', 'maxLength'].filter((name) => schema[name] !== undefined)
  const what = 'has a length together with a pattern or format whose texts are too many to count'
  return new UnheldError({ path, named: null, keywords }, what, (given) => without(given, keywords))
}

/** The pattern alone is held to; a text that it matches must have the format, too. */
function checkPatternOfFormat(pattern: string, format: string, path: string): void {
  const outer = formatDefinition(format)
  try {
    if (outer === undefined || isPatternWithin(pattern, outer)) return
  } catch (error) {
    // refused by its own name where its rule is written
    if (error instanceof PatternError) return
    throw error
  }
  const what = `has both a pattern and a format, and the pattern matches texts that are no "${format}"`
  throw new UnheldError({ path, named: null, keywords: ['format'] }, what, (given) => without(given, ['format']))
}

function checkProperties(schema: JsonObject, path: string): void {
  const { required = [], properties = {} } = schema
  if (!Array.isArray(required)) throw unsupported(`${path}/required`, 'must be a list of names')
  if (!isJsonObject(properties)) return
  const impossible = required.find((name) => properties[String(name)] === false)
  if (impossible !== undefined) throw unsupported(`${path}/properties/${String(impossible)}`, IMPOSSIBLE)
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
    if (property['const'] !== undefined) found.set(name, [stringifyExact(property['const'])])
    else if (Array.isArray(property['enum'])) found.set(name, property['enum'].map(stringifyExact))
  }
  return found
}

export function typesOf(schema: JsonObject): string[] {
  const { type = [] } = schema
  return (Array.isArray(type) ? type : [type]).map(String)
}

function isOfType(value: JsonValue, type: string): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isJsonObject(value)
  if (isExactNumber(value)) return type === 'number' || (type === 'integer' && Number.isInteger(valueOfNumber(value)))
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

export function unsupported(place: string, what: string, instead?: string): InvalidRequestError {
  return new InvalidRequestError('unsupported_schema', `JSON schema at ${place} ${what}`, hintTo(instead))
}

function hintTo(instead: string | undefined): { readonly hint: string } {
  const hint =
    instead === undefined ? 'the keywords that work are listed in the API documentation' : `use "${instead}" instead`
  return { hint }
}

/** What no answer can be held to, and what is left without it: refused where a schema is strict, left out where it is not. */
export class UnheldError extends InvalidRequestError {
  /** Where the schema stands whose keywords these are. */
  readonly path: string
  readonly keywords: readonly string[]
  /** Says less than the schema that is given, and can be held to as far as these keywords go. */
  readonly relax: (schema: JsonObject) => JsonObject

  /** @param place the keyword that the message names, or null for the schema itself */
  constructor(at: Unheld, what: string, relax: (schema: JsonObject) => JsonObject, instead?: string) {
    const place = at.named === null ? at.path : `${at.path}/${at.named}`
    const hint =
      'without strict: true what answers cannot be held to is left out, and named in x-trainyard-ignored-fields'
    super('unsupported_schema', `JSON schema at ${place} ${what}`, instead === undefined ? { hint } : hintTo(instead))
    this.path = at.path
    this.keywords = at.keywords
    this.relax = relax
  }
}

interface Unheld {
  readonly path: string
  /** The keyword that the message names; null: the schema itself. */
  readonly named: string | null
  readonly keywords: readonly string[]
}

/** @param named the keyword that the message names, left out with `others` where it is */
export function unheld(path: string, named: string, what: string, others: readonly string[] = []): UnheldError {
  const keywords = [named, ...others]
  return new UnheldError({ path, named, keywords }, what, (schema) => without(schema, keywords))
}

export function without(schema: JsonObject, keywords: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !keywords.includes(name)))
}
