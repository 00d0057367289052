/**
 * A JSON Schema that becomes a part of another one: its references count from the root, so they change with its place.
 *
 * Values (`const`, `enum`, ...) and names of properties are left alone, even those called `$ref`.
 */
import { isJsonObject, type JsonValue } from '#base/util/json.js'

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
