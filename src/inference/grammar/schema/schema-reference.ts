/** References inside a JSON Schema: where `#/...` points. JSON Pointer (RFC 6901) in a URI's fragment. */
import { isJsonObject, type JsonValue } from '#base/util/json.js'

/** Whether the compiler finds it by itself: the root, or a definition whose name needs no escapes. */
export function isPlainReference(reference: string): boolean {
  return reference === '#' || /^#\/(?:\$defs|definitions)\/[^/~%]+$/.test(reference)
}

/** The names on the way, unescaped; null in place of one that is not well written. */
export function referenceNames(reference: string): (string | null)[] {
  return reference.split('/').slice(1).map(unescapeName)
}

/** @returns what the reference points to, or undefined if that is nothing */
export function resolveReference(root: JsonValue, reference: string): JsonValue | undefined {
  return referenceNames(reference).reduce<JsonValue | undefined>((place, name) => {
    if (place === undefined || name === null) return undefined
    if (Array.isArray(place)) return /^(?:0|[1-9]\d*)$/.test(name) ? place[Number(name)] : undefined
    return isJsonObject(place) && Object.hasOwn(place, name) ? place[name] : undefined
  }, root)
}

function unescapeName(name: string): string | null {
  try {
    return decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return null
  }
}
