/**
 * JSON text to values whose numbers are exact (`exact-number.ts`), and back.
 *
 * Only what a prompt or a grammar is made of is read in this way: `KEPT_KEYS` names those parts of requests and rows, so that options and
 * log-probabilities are plain numbers, and gigabytes of them are parsed as fast as ever.
 */

import { isExactText, isReservedKey, NUMBER_KEY } from './exact-number.js'
import type { JsonValue } from './json-value.js'

/** Fields of requests and rows below which numbers keep their text. */
const KEPT_KEYS = [
  'tools',
  'functions',
  'tool_calls',
  'function_call',
  'documents',
  'chat_template_kwargs',
  'response_format',
  'structured_outputs',
  'guided_json',
  'json_schema',
  'format',
  'schema',
  'input',
] as const
const keptKeys: ReadonlySet<string> = new Set(KEPT_KEYS)
/** Such a field whose value is an object or a list. One pass of this costs less than parsing does. */
const KEPT_START = new RegExp(`"(?:${KEPT_KEYS.join('|')})"\\s*:\\s*[[{]`, 'g')

/** Whether numbers below this field of a request or a row keep their text. */
export function keepsNumbers(key: string): boolean {
  return keptKeys.has(key)
}

/**
 * A JSON text, all of its numbers exact.
 *
 * @throws {SyntaxError} as `JSON.parse`
 */
export function parseExact(text: string): JsonValue {
  return parseWith(text, spell(text, exactIn(text, 0, false).found))
}

/**
 * A request or a row, exact below the fields that keep their numbers.
 *
 * @throws {SyntaxError} as `JSON.parse`
 */
export function parseExactRow(text: string): JsonValue {
  const found: Span[] = []
  KEPT_START.lastIndex = 0
  while (KEPT_START.test(text)) {
    const part = exactIn(text, KEPT_START.lastIndex - 1, true)
    for (const span of part.found) found.push(span)
    KEPT_START.lastIndex = part.end
  }
  return parseWith(text, spell(text, found))
}

/** JSON text in which exact numbers are numbers again; spaced as `JSON.stringify` does. */
export function stringifyExact(value: JsonValue): string {
  const text = JSON.stringify(value)
  return text.includes(SPELLED_START) ? text.replace(SPELLED, '$1') : text
}

const SPELLED_START = `{${JSON.stringify(NUMBER_KEY)}:"`
// quotes inside of strings are escaped, so only an object begins like this
const SPELLED = /\{"\\u0000number\\u0000":"([^"]*)"\}/g

/** A number from its first character to behind its last. */
type Span = readonly [start: number, end: number]

/** Numbers that need their text, from `start` on. @param isPart up to the end of the object or list that begins there */
function exactIn(
  text: string,
  start: number,
  isPart: boolean,
): { readonly found: readonly Span[]; readonly end: number } {
  const found: Span[] = []
  let depth = 0
  let i = start
  while (i < text.length) {
    const code = text.charCodeAt(i)
    if (code === 0x22) {
      i = behindString(text, i)
      continue
    }
    if (code === 0x7b || code === 0x5b) depth++
    else if (code === 0x7d || code === 0x5d) {
      depth--
      if (isPart && depth === 0) return { found, end: i + 1 }
    } else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      const end = behindNumber(text, i)
      const number = text.slice(i, end)
      if (isExactText(number)) found.push([i, end])
      i = end
      continue
    }
    i++
  }
  return { found, end: i }
}

function behindString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (end !== -1) {
    let before = end - 1
    while (text[before] === '\\') before--
    if ((end - before) % 2 === 1) return end + 1
    end = text.indexOf('"', end + 1)
  }
  return text.length
}

function behindNumber(text: string, start: number): number {
  let i = start + 1
  for (; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const isPart = (code >= 0x30 && code <= 0x39) || code === 0x2e || code === 0x2b || code === 0x2d
    if (!isPart && code !== 0x65 && code !== 0x45) break
  }
  return i
}

/** The text with its exact numbers as the objects that stand for them. */
function spell(text: string, found: readonly Span[]): string {
  if (found.length === 0) return text
  const parts: string[] = []
  let at = 0
  for (const [start, end] of found) {
    parts.push(text.slice(at, start), SPELLED_START, text.slice(start, end), '"}')
    at = end
  }
  return parts.join('') + text.slice(at)
}

function parseWith(text: string, spelled: string): JsonValue {
  const value = JSON.parse(spelled) as JsonValue
  // a key of the text itself could only be written with this escape
  if (text.includes('\\u0000')) JSON.parse(text, refuseReservedKey)
  return value
}

function refuseReservedKey(key: string, value: unknown): unknown {
  if (isReservedKey(key)) throw new SyntaxError('a key begins and ends with U+0000, which is reserved')
  return value
}
