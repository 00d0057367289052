/**
 * Strings of a JSON Schema as rules of EBNF: a regular expression or bounds of length, on the text that JSON writes.
 *
 * xgrammar 0.1.27 matches patterns against the text between the quotes, so that `.` lets a quote through and the answer is no JSON.
 * Here every character stands as JSON writes it, quotes and control characters by their escapes. Patterns are matched against the
 * whole text; JSON Schema would let them match anywhere, so every answer is still valid.
 */

import { type CodeRange, classAlternatives, plainPart } from './character-class.js'
import { PatternError, readPattern } from './pattern-reader.js'

const LINE_ENDS: readonly CodeRange[] = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]
/** Any character of a JSON string, without escapes of its number: those would count twice where a pair makes one character. */
const ANY_CHARACTER = `(${classAlternatives(plainPart([[0, 0x10ffff]])).join(' | ')} | ${String.raw`"\\" ["\\/bfnrt]`})`

/** @returns the rule of a string with so many characters */
export function lengthRule(minLength: number, maxLength: number | null): string {
  return String.raw`"\"" ${ANY_CHARACTER}{${minLength},${maxLength ?? ''}} "\""`
}

/**
 * @param pattern as JSON Schema has it, with Unicode's meaning of characters
 * @returns the rule of a string whose whole text matches
 * @throws {PatternError} for what is no regular expression, looks around, or refers back
 */
export function patternRule(pattern: string): string {
  refuseProperties(pattern)
  try {
    new RegExp(pattern, 'u')
  } catch {
    throw new PatternError('is not a regular expression')
  }
  const rule = readPattern(pattern, { character: characterRule, lineEnds: LINE_ENDS, isWhole: true })
  return String.raw`"\"" (${rule}) "\""`
}

/** Refused before V8 reads the pattern: it writes a property of characters out each time, 60,000 of them take 800 MB outside of its heap. */
function refuseProperties(pattern: string): void {
  for (let at = pattern.indexOf('\\'); at >= 0; at = pattern.indexOf('\\', at + 2)) {
    const letter = pattern[at + 1]
    if (letter === 'p' || letter === 'P') throw new PatternError(`uses "\\${letter}", which is not supported`)
  }
}

/** One character of the ranges as JSON writes it. Of control characters those that have a short escape. */
function characterRule(ranges: readonly CodeRange[]): string {
  const has = (code: number): boolean => ranges.some(([from, to]) => from <= code && code <= to)
  const escaped = [0x22, 0x5c, 8, 9, 10, 12, 13].filter(has).map((code) => {
    const text = JSON.stringify(String.fromCodePoint(code)).slice(1, -1)
    return `"${text.replace(/["\\]/g, (character) => `\\${character}`)}"`
  })
  const options = [...classAlternatives(plainPart(ranges)), ...escaped]
  if (options.length === 0) throw new PatternError('asks for a character that JSON cannot write')
  const rule = options.join(' | ')
  // Several bytes are one character to a quantifier, too.
  return rule.includes(' ') ? `(${rule})` : rule
}
