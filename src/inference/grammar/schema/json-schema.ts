/**
 * JSON Schema as the grammar compiler understands it: refuses by name what it would ignore, writes out the two defaults
 * that it reads differently, and marks what it would get wrong for `schema-patches.ts`.
 *
 * xgrammar 0.1.27 skips keywords it does not know, and looks at one of `$ref`, `const`, `enum`, `anyOf`, `allOf`, `type` only,
 * in this order. An answer would then end without being valid, so such schemas are refused. Keywords outside the vocabularies
 * of JSON Schema are annotations and change nothing, as the specification says (2020-12, core 6.5).
 */
import { stringifyExact } from '#base/json/exact-json.js'
import { isExactNumber } from '#base/json/exact-number.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { checkHeap } from '../heap-limit.js'
import { boundedPatternRule } from './bounded-pattern.js'
import { withMergedObjects } from './merged-objects.js'
import { type Bound, integerRangeRule, nearestNumber, numberRangeRule } from './number-range.js'
import { PatternError, PatternSyntaxError } from './pattern-reader.js'
import { hasExactNumber, withPlainNumbers } from './plain-numbers.js'
import {
  BOUNDS,
  COMBINING,
  checkSiblings,
  checkValues,
  IMPOSSIBLE,
  lengthBeside,
  STRING_KEYWORDS,
  typesOf,
  UNSUPPORTED,
  UnheldError,
  unheld,
  unsupported,
  without,
} from './schema-checks.js'
import {
  type ConstantPatch,
  literalRule,
  type OthersPatch,
  type OwnRule,
  type SchemaPatches,
} from './schema-patches.js'
import { isPlainReference, referenceNames, resolveReference } from './schema-reference.js'
import { readFormat } from './string-format.js'
import { lengthRule, patternRule } from './string-pattern.js'

const KEYWORDS_OF_TYPE: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: STRING_KEYWORDS,
  number: BOUNDS,
}

const MAX_DEPTH = 100
/** Keywords of one schema that are left out one after the other: more than there are. */
const MOST_LEFT = 32

/** What the compiler is given. */
export interface GrammarSchema {
  readonly schema: JsonValue
  readonly patches: SchemaPatches
  /** Keywords that were left out, each with its place (`#/properties/tags/uniqueItems`): a lax schema's only. */
  readonly unheld: readonly string[]
}

export interface SchemaOptions {
  /** What answers cannot be held to is left out instead of refused, and named. */
  readonly isLax?: boolean
  /** Characters that an answer can come to: bounds beyond them are none. */
  readonly reach?: number
}

/**
 * Checks a schema and returns what the compiler is given.
 *
 * An object without `properties` and an array without `items` may hold anything, as JSON Schema says; an object with
 * `properties` holds only those unless `additionalProperties` says otherwise, which JSON Schema allows an answer to do.
 *
 * @throws {InvalidRequestError} `unsupported_schema` naming the keyword and where it stands
 */
export function toGrammarSchema(given: JsonValue, options: SchemaOptions = {}): GrammarSchema {
  const schema = hasExactNumber(given) ? withPlainNumbers(given) : given
  const marks = new Marks(schema, options)
  if (schema === false) throw unsupported('#', IMPOSSIBLE)
  const converted = convert(schema, { path: '#', depth: 0, marks })
  const { constants, others, definitions } = marks
  const found = { patches: { constants, others }, unheld: [...marks.left] }
  if (!isJsonObject(converted) || Object.keys(definitions).length === 0) return { schema: converted, ...found }
  const known = isJsonObject(converted['$defs'] ?? null) ? (converted['$defs'] as JsonObject) : {}
  return { schema: { ...converted, $defs: { ...known, ...definitions } }, ...found }
}

/** Marks that the schema itself does not spell. */
class Marks {
  readonly constants: ConstantPatch[] = []
  readonly others: OthersPatch[] = []
  readonly definitions: Record<string, JsonValue> = {}
  readonly left = new Set<string>()
  readonly isLax: boolean
  readonly reach: number | undefined
  readonly root: JsonValue
  readonly #prefix: string
  readonly #references = new Map<string, string>()

  constructor(schema: JsonValue, { isLax = false, reach }: SchemaOptions) {
    this.root = schema
    this.isLax = isLax
    this.reach = reach
    const text = JSON.stringify(schema) ?? ''
    let prefix = 'marked'
    while (text.includes(prefix)) prefix += 'x'
    this.#prefix = prefix
  }

  /** Notes keywords that are left out. */
  leave(path: string, keywords: readonly string[]): void {
    for (const keyword of keywords) this.left.add(`${path}/${keyword}`)
  }

  /** A text, as a constant or the name of a property, in place of what matches the rule. */
  text(rule: OwnRule | string): string {
    checkHeap()
    const mark = `${this.#prefix}t${this.constants.length}`
    this.constants.push({ mark, ...(typeof rule === 'string' ? { rule } : rule) })
    return mark
  }

  /** A reference in place of the schema of properties that are not called like those listed. */
  othersThan(names: readonly string[], schema: JsonValue): JsonValue {
    const mark = `${this.#prefix}o${letters(this.others.length)}`
    this.others.push({ mark, names })
    this.definitions[mark] = schema === true ? {} : schema
    return { $ref: `#/$defs/${mark}` }
  }

  /** A reference that the compiler finds, to what this one points to. */
  reference(reference: string, place: Place): string {
    const target = resolveReference(this.root, reference)
    if (target === undefined)
      throw unsupported(`${place.path}/$ref`, `points to nothing ("${reference.slice(0, 100)}")`)
    if (target === false) throw unsupported(`${place.path}/$ref`, 'points to a schema that is false')
    if (isPlainReference(reference)) return reference
    const key = JSON.stringify(referenceNames(reference))
    let mark = this.#references.get(key)
    if (mark === undefined) {
      mark = `${this.#prefix}r${letters(this.#references.size)}`
      this.#references.set(key, mark)
      const converted = convert(target, { path: reference, depth: place.depth + 1, marks: this })
      this.definitions[mark] = converted === true ? {} : converted
    }
    return `#/$defs/${mark}`
  }
}

/** The compiler drops digits from the names of definitions. */
function letters(count: number): string {
  return Array.from(String(count), (digit) => 'abcdefghij'[Number(digit)]).join('')
}

interface Place {
  readonly path: string
  readonly depth: number
  readonly marks: Marks
}

/** As it is said; where it need not be strict, without what cannot be held to. */
function convert(given: JsonValue, place: Place): JsonValue {
  let schema = given
  for (let tries = 0; ; tries++) {
    try {
      return convertAsSaid(schema, place)
    } catch (error) {
      const isOwn = error instanceof UnheldError && error.path === place.path && isJsonObject(schema)
      if (!place.marks.isLax || !isOwn || tries > MOST_LEFT) throw error
      schema = error.relax(withoutOldSpellings(schema as JsonObject))
      place.marks.leave(place.path, error.keywords)
    }
  }
}

function convertAsSaid(given: JsonValue, place: Place): JsonValue {
  const { path, depth, marks } = place
  checkHeap()
  if (depth > MAX_DEPTH) throw unsupported(path, `is nested deeper than ${MAX_DEPTH} levels`)
  if (typeof given === 'boolean') return given
  if (!isJsonObject(given)) throw unsupported(path, 'must be an object or a boolean')
  const said = withRequired(
    withSatisfiable(withType(withoutOldSpellings(withMergedObjects(given, marks.root))), path),
    path,
  )
  const [named, ...others] = Object.keys(said).filter((name) => UNSUPPORTED.has(name))
  if (named !== undefined) throw unheld(path, named, 'uses a keyword that answers cannot be held to', others)
  checkSiblings(said, path)
  checkValues(said, path)
  const schema = withinReach(said, marks.reach)
  if (COMBINING.some((name) => Object.hasOwn(schema, name))) {
    return { ...schema, ...subschemas(schema, place), ...listedValues(schema, place) }
  }
  const types = typesOf(schema)
  const text = types.includes('string') ? stringRule(schema, place) : null
  if (text !== null) return withOwnType(schema, { own: 'string', rule: text }, place)
  const number = numberRule(withFormatBounds(schema, types), types, path)
  if (number !== null) return withOwnType(schema, { own: 'number', rule: number }, place)
  const converted = { ...schema, ...subschemas(schema, place) }
  const isAnyObject = schema['properties'] === undefined && schema['additionalProperties'] === undefined
  const isAnyArray = schema['items'] === undefined && schema['prefixItems'] === undefined
  return {
    ...converted,
    ...(types.includes('object') && isAnyObject ? { additionalProperties: true } : {}),
    ...(types.includes('array') && isAnyArray ? { items: true } : {}),
    ...(types.includes('object') ? { ...namedOthers(converted, marks), ...plainNames(converted, marks) } : {}),
  }
}

/** Without bounds that no answer can come to: those of long texts and lists are what takes a compiler longest. */
function withinReach(schema: JsonObject, reach = Number.POSITIVE_INFINITY): JsonObject {
  const isBeyond = (name: string): boolean => Number(schema[name]) > reach
  const least = ['minLength', 'minItems'].filter(isBeyond)
  const most = ['maxLength', 'maxItems'].filter(isBeyond)
  if (least.length + most.length === 0) return schema
  return { ...without(schema, most), ...Object.fromEntries(least.map((name) => [name, reach])) }
}

/** Tuples as draft 7 spells them, as newer drafts do; and without names of properties that need only be text, which they all are. */
function withoutOldSpellings(schema: JsonObject): JsonObject {
  const { propertyNames: names, ...others } = schema
  const isAnyText = isJsonObject(names ?? null) && Object.keys(names as JsonObject).join() === 'type'
  const isIdle = isEmpty(names ?? null) || (isAnyText && (names as JsonObject)['type'] === 'string')
  const said = isIdle ? others : schema
  const { items, additionalItems, ...rest } = said
  if (!Array.isArray(items) || items.length === 0 || said['prefixItems'] !== undefined) return said
  return { ...rest, prefixItems: items, ...(additionalItems === undefined ? {} : { items: additionalItems }) }
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

/** Without what nobody can satisfy where something else is possible, and without members of `allOf` that say nothing. */
function withSatisfiable(schema: JsonObject, path: string): JsonObject {
  const changed: Record<string, JsonValue> = {}
  for (const name of ['anyOf', 'oneOf'] as const) {
    const value = schema[name]
    if (!Array.isArray(value) || !value.includes(false)) continue
    const left = value.filter((item) => item !== false)
    if (left.length === 0) throw unsupported(`${path}/${name}`, IMPOSSIBLE)
    changed[name] = left
  }
  for (const name of ['allOf', 'prefixItems'] as const) {
    const value = schema[name]
    const index = Array.isArray(value) ? value.indexOf(false) : -1
    if (index >= 0) throw unsupported(`${path}/${name}/${index}`, IMPOSSIBLE)
  }
  const { allOf } = schema
  if (Array.isArray(allOf) && allOf.length > 1) {
    const saying = allOf.filter((item) => !isEmpty(item))
    changed['allOf'] = saying.length === 0 ? [true] : saying
  }
  return { ...schema, ...changed }
}

function isEmpty(schema: JsonValue): boolean {
  return schema === true || (isJsonObject(schema) && Object.keys(schema).length === 0)
}

/** With a description of every required property: one that nothing describes could never be written. */
function withRequired(schema: JsonObject, path: string): JsonObject {
  const { required = [], properties = {}, additionalProperties } = schema
  const isAlone = !COMBINING.some((name) => Object.hasOwn(schema, name))
  if (!Array.isArray(required) || !isJsonObject(properties) || !isAlone || !typesOf(schema).includes('object'))
    return schema
  const missing = required.filter((name) => typeof name === 'string' && !Object.hasOwn(properties, name)).map(String)
  if (missing.length === 0) return schema
  if (additionalProperties === false) {
    const what = `names ${JSON.stringify(missing[0])}, which "properties" does not describe and "additionalProperties" forbids`
    throw unsupported(`${path}/required`, what)
  }
  const described = missing.map((name) => [name, additionalProperties ?? true])
  // without any properties an object may hold anything
  const isOpen = schema['properties'] === undefined && additionalProperties === undefined
  return {
    ...schema,
    properties: { ...properties, ...Object.fromEntries(described) },
    ...(isOpen ? { additionalProperties: true } : {}),
  }
}

/** The compiler writes a slash in a constant with a backslash, which no model does, and numbers in its own way. */
function listedValues(schema: JsonObject, { marks }: Place): JsonObject {
  const plain = (value: JsonValue): JsonValue => {
    const json = stringifyExact(value)
    return json.includes('/') || hasExactNumber(value) ? marks.text(literalRule(json)) : value
  }
  if (Object.hasOwn(schema, 'const')) return { const: plain(schema['const'] ?? null) }
  return Array.isArray(schema['enum']) ? { enum: schema['enum'].map(plain) } : {}
}

/** The bounds that a format of numbers means, beside those that are given. */
function withFormatBounds(schema: JsonObject, types: readonly string[]): JsonObject {
  const { format, ...rest } = schema
  const bounds = typeof format === 'string' ? readFormat(format, types)?.bounds : undefined
  if (bounds === undefined) return schema
  const [least, most] = bounds
  const { minimum, maximum } = schema
  return {
    ...rest,
    minimum: isBound(minimum) && nearestNumber(minimum) > least ? minimum : least,
    maximum: isBound(maximum) && nearestNumber(maximum) < most ? maximum : most,
  }
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
  const possible = Object.entries(properties as JsonObject).filter(([, value]) => value !== false)
  const names = possible.map(([name]) => name).filter((name) => JSON.stringify(name) !== `"${name}"`)
  const markOf = new Map(names.map((name) => [name, marks.text(literalRule(JSON.stringify(name)))]))
  const entries = possible.map(([name, value]) => [markOf.get(name) ?? name, value])
  const needed = Array.isArray(required) ? { required: required.map((name) => markOf.get(String(name)) ?? name) } : {}
  return { properties: Object.fromEntries(entries), ...needed }
}

function isBound(value: JsonValue | undefined): value is Bound {
  return typeof value === 'number' || isExactNumber(value)
}

/** The rule of a number with bounds; null if it may be any, or is none. */
function numberRule(schema: JsonObject, types: readonly string[], path: string): string | null {
  const isNumeric = types.includes('number') || types.includes('integer')
  if (!isNumeric || !BOUNDS.some((name) => Object.hasOwn(schema, name))) return null
  const bound = (name: (typeof BOUNDS)[number]): Bound | null => {
    const value = schema[name]
    return isBound(value) ? value : null
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
  return rule
}

/** The rule of a string with a pattern, a format or bounds of length; null if it may be any. */
function stringRule(schema: JsonObject, { path, marks: { reach } }: Place): OwnRule | string | null {
  const { minLength, maxLength, format } = schema
  const formatted = typeof format === 'string' ? readFormat(format, ['string'])?.pattern : undefined
  const pattern = schema['pattern'] ?? formatted
  const hasLength = minLength !== undefined || maxLength !== undefined
  const bounds = { minLength: Number(minLength ?? 0), maxLength: maxLength === undefined ? null : Number(maxLength) }
  if (pattern === undefined) return hasLength ? lengthRule(bounds.minLength, bounds.maxLength) : null
  try {
    if (!hasLength) return patternRule(String(pattern), reach === undefined ? {} : { reach })
    const rule = boundedPatternRule(String(pattern), bounds)
    if (rule === null) throw lengthBeside(schema, path)
    return rule
  } catch (error) {
    // what is none in any language cannot be checked afterwards either
    if (error instanceof PatternSyntaxError) {
      throw unsupported(`${path}/pattern`, `is no regular expression: it ${error.message}`)
    }
    if (error instanceof PatternError) throw unheld(path, 'pattern', error.message)
    throw error
  }
}

/** A mark in place of values of one type; values of the schema's other types are converted by themselves. */
function withOwnType(
  schema: JsonObject,
  { own, rule }: { readonly own: 'number' | 'string'; readonly rule: OwnRule | string },
  place: Place,
): JsonValue {
  const { path, depth, marks } = place
  const definitions = subschemas(pick(schema, DEFINITIONS), place)
  const mark = marks.text(rule)
  const isOwn = (type: string): boolean => type === own || (own === 'number' && type === 'integer')
  const others = typesOf(schema).filter((type) => !isOwn(type))
  if (others.length === 0) return { ...definitions, const: mark }
  const spent = [...DEFINITIONS, ...(own === 'number' ? [...BOUNDS, 'format'] : STRING_KEYWORDS)]
  const left = Object.keys(schema).filter((name) => !spent.includes(name))
  const rest = convert({ ...pick(schema, left), type: others }, { path, depth: depth + 1, marks })
  return { ...definitions, anyOf: [{ const: mark }, rest] }
}

const DEFINITIONS = ['$defs', 'definitions']

function pick(schema: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => names.includes(name)))
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
  const { $ref: reference } = schema
  if (typeof reference === 'string') found['$ref'] = marks.reference(reference, { path, depth, marks })
  return found
}
