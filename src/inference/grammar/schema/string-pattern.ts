/**
 * Strings of a JSON Schema as rules of EBNF: a regular expression or bounds of length, on the text that JSON writes.
 *
 * xgrammar 0.1.27 matches patterns against the text between the quotes, so that `.` lets a quote through and the answer is no JSON.
 * Here every character stands as JSON writes it, quotes and control characters by their escapes. Patterns are matched against the
 * whole text; JSON Schema would let them match anywhere, so every answer is still valid.
 */

import { type CodeRange, classAlternatives, plainPart } from './character-class.js'
import { type PatternDialect, PatternError } from './pattern-reader.js'
import { patternToEbnf } from './pattern-writer.js'

/** Any character of a JSON string, without escapes of its number: those would count twice where a pair makes one character. */
const ANY_CHARACTER = `(${classAlternatives(plainPart([[0, 0x10ffff]])).join(' | ')} | ${String.raw`"\\" ["\\/bfnrt]`})`

/** @returns the rule of a string with so many characters */
export function lengthRule(minLength: number, maxLength: number | null): string {
  return String.raw`"\"" ${ANY_CHARACTER}{${minLength},${maxLength ?? ''}} "\""`
}

/**
 * @param pattern as `parsePattern` reads it
 * @returns the rule of a string whose whole text matches
 * @throws {PatternError} for what is no regular expression, looks around, or refers back
 */
export function patternRule(pattern: string, dialect: PatternDialect = {}): string {
  return String.raw`"\"" (${patternToEbnf(pattern, characterRule, dialect)}) "\""`
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
