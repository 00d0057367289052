/**
 * Results of tools within what an agent can read: what does not fit is cut where it is longest, and what was left out is said.
 */
import type { JsonValue } from '#base/util/json.js'

/** Of a result with its note, in UTF-8. */
export const MOST_BYTES = 20_000
/** Room for the note. */
const NOTE_BYTES = 2000
/** Notes of one result; the rest is counted. */
const MOST_NOTES = 12

interface Limits {
  readonly items: number
  readonly characters: number
}

/** Widest first. */
const STEPS: readonly Limits[] = [200, 100, 50, 25, 12, 6, 3, 1]
  .flatMap((items) => [4000, 1000, 250, 60].map((characters) => ({ items, characters })))
  .sort((a, b) => b.items * b.characters - a.items * a.characters)

const sizeOf = (text: string): number => Buffer.byteLength(text)

/**
 * @param hint what the agent asks next for the rest
 * @returns JSON of at most `MOST_BYTES` bytes; with anything left out an object `{ result, left_out, next }`
 */
export function bounded(value: JsonValue, hint: string): string {
  const whole = JSON.stringify(value)
  if (sizeOf(whole) <= MOST_BYTES) return whole
  const fits = (limits: Limits): string | null => {
    const notes: string[] = []
    const result = cut(value, limits, '', notes)
    const more = notes.length - MOST_NOTES
    const said = more > 0 ? [...notes.slice(0, MOST_NOTES), `${more} more places`] : notes
    const text = JSON.stringify({ result, left_out: said.map((note) => note.slice(0, 120)), next: hint.slice(0, 300) })
    return sizeOf(text) <= MOST_BYTES ? text : null
  }
  // halves instead of one after the other: each is a pass over all of it
  let text: string | null = null
  for (let from = 0, to = STEPS.length; from < to; ) {
    const middle = (from + to) >> 1
    const fitting = fits(STEPS[middle] as Limits)
    text = fitting ?? text
    if (fitting === null) from = middle + 1
    else to = middle
  }
  if (text !== null) return text
  // an object of very many names: its text as far as it goes
  const start = whole.slice(0, Math.floor((MOST_BYTES - NOTE_BYTES) / 4))
  return JSON.stringify({ result_begins: start, left_out: [`${sizeOf(whole)} bytes in all`], next: hint.slice(0, 300) })
}

function cut(value: JsonValue, limits: Limits, at: string, notes: string[]): JsonValue {
  if (typeof value === 'string') {
    if (value.length <= limits.characters) return value
    notes.push(`${at}: ${value.length - limits.characters} of ${value.length} characters`)
    return `${value.slice(0, limits.characters)}…`
  }
  if (Array.isArray(value)) {
    const items = value as readonly JsonValue[]
    const shown = items.slice(0, limits.items)
    // before those of what is in it, as notes are few
    if (shown.length < items.length) notes.push(`${at}: ${items.length - shown.length} of ${items.length} items`)
    return shown.map((item, i) => cut(item, limits, `${at}[${i}]`, notes))
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, cut(item, limits, at === '' ? key : `${at}.${key}`, notes)]),
  )
}
