/**
 * Keeping control tokens that a user spells from becoming control tokens.
 *
 * A marker character is put inside every spelling in user-given strings before the template runs, and at the ends of
 * strings that could complete a spelling with what the template writes next to them. After rendering, the markers are
 * taken out and their positions become barriers for the tokenizer, which lets no control token reach across one. The
 * rest of the text is as the template wrote it.
 */
import { isExactNumber } from '#base/json/exact-number.js'
import type { JsonValue } from '#base/util/json.js'

/** Text with the positions, sorted, that no control token may span. */
export interface BarredText {
  readonly text: string
  readonly barriers: readonly number[]
}

export interface ControlTokenGuard {
  /** Whether a string of the value would be marked. */
  needsMarks(value: JsonValue): boolean
  /** Marks strings and object keys at any depth with a character that none of them holds. */
  mark(value: JsonValue, marker: string): JsonValue
}

/** Unicode noncharacters, which no text is meant to hold; the first one unused by the input is the marker. */
const markerCandidates = Array.from({ length: 32 }, (_, i) => String.fromCharCode(0xfdd0 + i))

/** A character that occurs in none of the texts, or null when all candidates are taken. */
export function pickMarker(texts: readonly string[]): string | null {
  return markerCandidates.find((marker) => texts.every((text) => !text.includes(marker))) ?? null
}

/** Prepares marking for a set of control tokens; those of one character are not guarded against. */
export function createControlTokenGuard(controlTokens: readonly string[]): ControlTokenGuard {
  const tokens = controlTokens.filter((token) => token.length > 1)
  const spelling = spellingPattern(tokens)
  const beginnings = new Set<string>()
  const endings = new Set<string>()
  for (const token of tokens) {
    for (let i = 1; i < token.length; i++) {
      beginnings.add(token.slice(0, i))
      endings.add(token.slice(i))
    }
  }
  const longest = tokens.reduce((length, token) => Math.max(length, token.length), 0)

  const completesBefore = (text: string): boolean => someAffix(endings, longest, (n) => text.slice(0, n))
  const beginsAfter = (text: string): boolean =>
    someAffix(beginnings, longest, (n) => (n > text.length ? '' : text.slice(-n)))
  const isMarked = (text: string): boolean =>
    (spelling !== null && text.search(spelling) !== -1) || completesBefore(text) || beginsAfter(text)
  const markText = (text: string, marker: string): string => {
    if (!isMarked(text)) return text
    const inside = spelling === null ? text : text.replace(spelling, (first) => first + marker)
    return (completesBefore(text) ? marker : '') + inside + (beginsAfter(text) ? marker : '')
  }

  return {
    needsMarks: (value) => someString(value, isMarked),
    mark: (value, marker) => mapStrings(value, (text) => markText(text, marker)),
  }
}

/** Matches the first character of every spelling, overlapping ones too. */
function spellingPattern(tokens: readonly string[]): RegExp | null {
  if (tokens.length === 0) return null
  const rest = new Map<string, string[]>()
  for (const token of tokens)
    rest.set(token.charAt(0), [...(rest.get(token.charAt(0)) ?? []), escapeRegExp(token.slice(1))])
  const alternatives = [...rest].map(([first, ends]) => `${escapeRegExp(first)}(?=${ends.join('|')})`)
  return new RegExp(alternatives.join('|'), 'g')
}

function someAffix(affixes: ReadonlySet<string>, longest: number, affix: (length: number) => string): boolean {
  for (let n = 1; n < longest; n++) if (affixes.has(affix(n))) return true
  return false
}

/** Takes the markers out and returns where they were. */
export function unmark(text: string, marker: string): BarredText {
  const pieces = text.split(marker)
  const barriers: number[] = []
  let length = 0
  for (const piece of pieces.slice(0, -1)) {
    length += piece.length
    if (barriers.at(-1) !== length) barriers.push(length)
  }
  return { text: pieces.join(''), barriers }
}

/** Whether any string or key at any depth passes the test. */
export function someString(value: JsonValue, test: (text: string) => boolean): boolean {
  if (typeof value === 'string') return test(value)
  if (isExactNumber(value)) return false
  if (Array.isArray(value)) return value.some((item) => someString(item, test))
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).some(([key, item]) => test(key) || someString(item, test))
  }
  return false
}

/** A copy with every string and key at any depth replaced. */
export function mapStrings(value: JsonValue, replace: (text: string) => string): JsonValue {
  if (typeof value === 'string') return replace(value)
  if (isExactNumber(value)) return value
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, replace))
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [replace(key), mapStrings(item, replace)]))
  }
  return value
}

const escapeRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
