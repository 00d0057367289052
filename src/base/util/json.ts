/**
 * The JSON value type and the questions every reader of JSON asks. Knows nothing of parsing: untrusted text is parsed where it enters.
 */

import { isExactNumber } from '#base/json/exact-number.js'
import type { JsonObject } from '#base/json/json-value.js'

export type { JsonObject, JsonValue } from '#base/json/json-value.js'

/** Whether a JSON value is an object: not null, not a list, nor a number that keeps its text. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isExactNumber(value)
}

/** The object without its null entries, at every depth of nested objects; lists stay as they are. */
export function withoutNulls(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(object)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([key, value]) => [key, isJsonObject(value) ? withoutNulls(value) : value]),
  )
}
