/**
 * Which numbers of a JSON Schema become plain JavaScript numbers. Counts do, because they are only compared. Bounds and what
 * `const` and `enum` list keep their exact text: bounds may be of any size, and the others are written into answers as they stand
 * (`5.0`, an integer of twenty digits). Knows nothing of what the compiler makes of them.
 */
import { isExactNumber, valueOfNumber } from '#base/json/exact-number.js'
import type { JsonValue } from '#base/util/json.js'
import { BOUNDS } from './schema-checks.js'

const KEPT: ReadonlySet<string> = new Set([...BOUNDS, 'const', 'enum'])
/** Keywords whose value has a schema for each name. */
const BY_NAME = new Set(['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'])

/** The schema with plain numbers, but for bounds and those that an answer repeats. */
export function withPlainNumbers(schema: JsonValue): JsonValue {
  if (isExactNumber(schema)) return valueOfNumber(schema)
  return mapValues(schema, (value, name) => {
    if (KEPT.has(name)) return value
    return BY_NAME.has(name) ? mapValues(value, withPlainNumbers) : withPlainNumbers(value)
  })
}

/** Whether a value has a number that keeps its text, at any depth. */
export function hasExactNumber(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false
  return isExactNumber(value) || Object.values(value).some(hasExactNumber)
}

function mapValues(value: JsonValue, map: (value: JsonValue, name: string) => JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (isExactNumber(value)) return valueOfNumber(value)
  if (Array.isArray(value)) return value.map(withPlainNumbers)
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, map(item, name)]))
}
