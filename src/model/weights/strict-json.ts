/**
 * JSON of model files, parsed strictly: an object at the top, no key twice at any depth, no endless nesting.
 *
 * A duplicate key means two readers can see two different files, so it is refused rather than resolved.
 */
import { WeightsError } from '#base/errors/errors.js'
import { findJsonFault } from '#base/json/json-fault.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** Configurations nest a handful of levels; what walks a value does so by calling itself. */
const MAX_DEPTH = 100

/**
 * Parses an untrusted JSON object.
 *
 * @param what names the file in messages
 * @throws {WeightsError} `invalid_json` for malformed text, a top level that is not an object, or deep nesting; `duplicate_key`
 */
export function parseStrictJsonObject(text: string, what: string): JsonObject {
  assertShallow(text, what)
  const value = parseJsonText(text, what)
  if (!isJsonObject(value)) throw new WeightsError('invalid_json', `${what} is not a JSON object`)
  const duplicate = findDuplicateKey(text)
  if (duplicate !== null) throw new WeightsError('duplicate_key', `${what} has the key "${duplicate}" twice`)
  return value
}

/**
 * Parses the JSON of a model's file, with or without a byte order mark.
 *
 * @param what names the file in messages
 * @throws {WeightsError} `invalid_json` with line, column and what is wrong there
 */
export function parseJsonText(text: string, what: string): JsonValue {
  const json = text.replace(/^\uFEFF/, '')
  try {
    return JSON.parse(json) as JsonValue
  } catch (cause) {
    throw new WeightsError('invalid_json', `${what} is not valid JSON${placeOf(json)}`, { cause })
  }
}

function placeOf(text: string): string {
  const fault = findJsonFault(text)
  return fault === null ? '' : `: line ${fault.line}, column ${fault.column}: ${fault.problem}`
}

/** Before anything is made of it: brackets alone cost sixty times their size. */
function assertShallow(text: string, what: string): void {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) i = endOfString(text, i)
    else if (code === 0x7b || code === 0x5b) depth += 1
    else if (code === 0x7d || code === 0x5d) depth -= 1
    if (depth > MAX_DEPTH) throw new WeightsError('invalid_json', `${what} nests deeper than ${MAX_DEPTH} levels`)
  }
}

/** The first key that occurs twice in one object of `text`, which must be valid JSON; null if there is none. */
function findDuplicateKey(text: string): string | null {
  // One entry per open container: the keys of an object, null for an array.
  const open: (Set<string> | null)[] = []
  let isKeyExpected = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) {
      const end = endOfString(text, i)
      const keys = open[open.length - 1]
      if (isKeyExpected && keys instanceof Set) {
        const key = JSON.parse(text.slice(i, end + 1)) as string
        if (keys.has(key)) return key
        keys.add(key)
        isKeyExpected = false
      }
      i = end
    } else if (code === 0x7b) {
      open.push(new Set())
      isKeyExpected = true
    } else if (code === 0x5b) {
      open.push(null)
      isKeyExpected = false
    } else if (code === 0x7d || code === 0x5d) {
      open.pop()
      isKeyExpected = false
    } else if (code === 0x2c) {
      isKeyExpected = open[open.length - 1] instanceof Set
    }
  }
  return null
}

function endOfString(text: string, start: number): number {
  let i = start + 1
  // a text that ends within a string is no JSON, which its parser says
  while (i < text.length && text.charCodeAt(i) !== QUOTE) i += text.charCodeAt(i) === BACKSLASH ? 2 : 1
  return i
}
