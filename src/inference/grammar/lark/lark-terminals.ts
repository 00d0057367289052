/**
 * Terminals of Lark as EBNF: texts, ranges of characters, regular expressions.
 */
import { quoted } from '../grammar-spec.js'
import type { CodeRange } from '../schema/character-class.js'
import { PatternError } from '../schema/pattern-reader.js'
import { textCharacter, textRule } from '../schema/pattern-writer.js'
import { withBothCases } from '../schema/unicode-classes.js'

export function textTerminal(text: string, ignoresCase: boolean): string {
  if (!ignoresCase || text === '') return quoted(text)
  return Array.from(text, (character) => textCharacter(withBothCases([codeRange(character, character)]))).join(' ')
}

/** One character from one text of a single character to another. @throws {PatternError} */
export function rangeTerminal(first: string, last: string): string {
  const range = codeRange(first, last)
  if (Array.from(first + last).length !== 2 || range[0] > range[1]) throw new PatternError('is no range of characters')
  return textCharacter([range])
}

/**
 * @param pattern a regular expression as Python has it, without its slashes
 * @param flags Python's
 * @throws {PatternError} for what cannot be kept
 */
export function patternTerminal(pattern: string, flags: string): string {
  const unknown = /[^imsu]/.exec(flags)
  if (unknown !== null) throw new PatternError(`has the flag "${unknown[0]}", which is not supported`)
  return textRule(pattern, {
    ignoresCase: flags.includes('i'),
    lineEnds: flags.includes('s') ? [] : [[10, 10]],
    isWhole: false,
  })
}

function codeRange(from: string, to: string): CodeRange {
  return [from.codePointAt(0) ?? 0, to.codePointAt(0) ?? 0]
}
