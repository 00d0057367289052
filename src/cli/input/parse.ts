/**
 * Text from flags and arguments to values. Every function throws `ExpectedError` with what it wanted; `define-command.ts`
 * adds the flag's name.
 */

import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { ExpectedError } from '#cli/config/parse-value.js'

/** A whole number inside the bounds. */
export function parseInteger(text: string, least: number, most: number = Number.MAX_SAFE_INTEGER): number {
  const value = /^[+-]?\d+$/.test(text.trim()) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  const upper = most === Number.MAX_SAFE_INTEGER ? ' or more' : ` to ${most}`
  throw new ExpectedError(`a whole number, ${least}${upper}`)
}

/** A finite number inside the bounds. */
export function parseNumber(text: string, least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value) && value >= least && value <= most) return value
  if (least === Number.NEGATIVE_INFINITY && most === Number.POSITIVE_INFINITY) throw new ExpectedError('a number')
  if (most === Number.POSITIVE_INFINITY) throw new ExpectedError(`a number, ${least} or more`)
  throw new ExpectedError(`a number from ${least} to ${most}`)
}

/** One of the given words. */
export function parseChoice<T extends string>(text: string, choices: readonly T[]): T {
  const choice = choices.find((each) => each === text)
  if (choice === undefined) throw new ExpectedError(`one of ${choices.join(', ')}`)
  return choice
}

/** Some of the given words, with commas between them. */
export function parseNames(text: string, choices: readonly string[]): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.every((name) => choices.includes(name))) return names
  throw new ExpectedError(`names out of ${choices.join(', ')}, with commas between them`)
}

/**
 * `1,2,5-9` → [1, 2, 5, 6, 7, 8, 9], ascending, without repeats.
 *
 * @throws {ExpectedError} on anything else, a backwards range, or more than 100 000 steps
 */
export function parseSteps(text: string): readonly number[] {
  const steps = new Set<number>()
  for (const part of text.split(',')) {
    const match = /^\s*(\d{1,9})(?:-(\d{1,9}))?\s*$/.exec(part)
    const first = Number(match?.[1])
    const last = match?.[2] === undefined ? first : Number(match[2])
    if (match === null || last < first || last - first + steps.size >= 100_000) {
      throw new ExpectedError('steps such as 1,2,5-9')
    }
    for (let step = first; step <= last; step += 1) steps.add(step)
  }
  return [...steps].sort((a, b) => a - b)
}

/** A JSON object. */
export function parseFields(text: string): JsonObject {
  try {
    const value: unknown = JSON.parse(text)
    if (isJsonObject(value)) return value
  } catch {
    // told below as any other text that is no object
  }
  throw new ExpectedError('a JSON object such as {"enable_thinking":true}')
}

/** `key=value`: the value is JSON when it parses as JSON, else text. */
export function parseAssignment(text: string): readonly [string, JsonValue] {
  const at = text.indexOf('=')
  const key = text.slice(0, at).trim()
  if (at < 1 || key === '') throw new ExpectedError('key=value')
  const raw = text.slice(at + 1)
  try {
    return [key, JSON.parse(raw) as JsonValue]
  } catch {
    return [key, raw]
  }
}

/** A day as `YYYY-MM-DD`, as it was written. */
export function parseDay(text: string): string {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  // JavaScript takes 31 February for 3 March
  if (Number.isNaN(time) || !new Date(time).toISOString().startsWith(text))
    throw new ExpectedError('a day as YYYY-MM-DD')
  return text
}
