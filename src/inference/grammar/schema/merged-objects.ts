/**
 * Objects put together by `allOf`, as inheritance and intersections are written: one object with all properties, which means the same.
 *
 * Only where every part says no more than which properties there are: anything else stays as it is.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { ASSERTIONS, UNSUPPORTED } from './schema-checks.js'
import { resolveReference } from './schema-reference.js'

const OBJECT_KEYWORDS = ['type', 'properties', 'required', 'additionalProperties']
/** References to references, and parts in parts. */
const MAX_DEPTH = 16

interface Part {
  readonly properties: JsonObject
  readonly required: readonly JsonValue[]
}

/** @param root what references point into */
export function withMergedObjects(schema: JsonObject, root: JsonValue): JsonObject {
  const { allOf } = schema
  if (!Array.isArray(allOf) || (allOf.length < 2 && !says(schema, ['allOf']))) return schema
  const merged = toPart(schema, root, MAX_DEPTH)
  if (merged === null || Object.keys(merged.properties).length === 0) return schema
  const left = Object.entries(schema).filter(([name]) => name !== 'allOf' && !OBJECT_KEYWORDS.includes(name))
  const { properties, required } = merged
  return { ...Object.fromEntries(left), type: 'object', properties, required: [...new Set(required)] }
}

/** @returns null for what is no such object */
function toPart(schema: JsonValue, root: JsonValue, depth: number): Part | null {
  if (schema === true) return { properties: {}, required: [] }
  if (!isJsonObject(schema) || depth === 0) return null
  const { $ref: reference, allOf = [], type = 'object', properties = {}, required = [] } = schema
  if (typeof reference === 'string') {
    const target = says(schema, ['$ref']) ? undefined : resolveReference(root, reference)
    return target === undefined ? null : toPart(target, root, depth - 1)
  }
  const isObject =
    !says(schema, ['allOf', ...OBJECT_KEYWORDS]) &&
    type === 'object' &&
    (schema['additionalProperties'] ?? true) === true &&
    isJsonObject(properties) &&
    Array.isArray(required) &&
    Array.isArray(allOf)
  if (!isObject) return null
  let whole: Part | null = { properties, required }
  for (const member of allOf) whole = joined(whole, toPart(member, root, depth - 1))
  return whole
}

function joined(one: Part | null, other: Part | null): Part | null {
  if (one === null || other === null) return null
  const properties: Record<string, JsonValue> = { ...one.properties }
  for (const [name, schema] of Object.entries(other.properties)) {
    const known = properties[name]
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(schema)) return null
    properties[name] = schema
  }
  return { properties, required: [...one.required, ...other.required] }
}

/** Whether a schema says anything of a value by other keywords than these. */
function says(schema: JsonObject, others: readonly string[]): boolean {
  return Object.keys(schema).some((name) => (ASSERTIONS.has(name) || UNSUPPORTED.has(name)) && !others.includes(name))
}
