/**
 * Terminals of Lark as EBNF: texts, ranges of characters, regular expressions, and those of `%import common`.
 */
import { quoted } from '../grammar-spec.js'
import type { CodeRange } from '../schema/character-class.js'
import { PatternError } from '../schema/pattern-reader.js'
import { textCharacter, textRule } from '../schema/pattern-writer.js'
import { withBothCases } from '../schema/unicode-classes.js'

const EXPONENT = '[eE][+-]?[0-9]+'
const DECIMAL = String.raw`(?:[0-9]+\.[0-9]*|\.[0-9]+)`
const NUMBER = `(?:${DECIMAL}|[0-9]+)(?:${EXPONENT})?`
const FLOAT = `(?:[0-9]+${EXPONENT}|${DECIMAL}(?:${EXPONENT})?)`
/** By name, as regular expressions of our own. */
export const COMMON_TERMINALS: ReadonlyMap<string, string> = new Map([
  ['DIGIT', '[0-9]'],
  ['HEXDIGIT', '[0-9a-fA-F]'],
  ['INT', '[0-9]+'],
  ['SIGNED_INT', '[+-]?[0-9]+'],
  ['DECIMAL', DECIMAL],
  ['FLOAT', FLOAT],
  ['SIGNED_FLOAT', `[+-]?${FLOAT}`],
  ['NUMBER', NUMBER],
  ['SIGNED_NUMBER', `[+-]?${NUMBER}`],
  ['ESCAPED_STRING', String.raw`"(?:[^"\\\n]|\\.)*"`],
  ['LCASE_LETTER', '[a-z]'],
  ['UCASE_LETTER', '[A-Z]'],
  ['LETTER', '[A-Za-z]'],
  ['WORD', '[A-Za-z]+'],
  ['CNAME', '[A-Za-z_][A-Za-z_0-9]*'],
  ['WS_INLINE', String.raw`[ \t]+`],
  ['WS', String.raw`[ \t\f\r\n]+`],
  ['CR', String.raw`\r`],
  ['LF', String.raw`\n`],
  ['NEWLINE', String.raw`(?:\r?\n)+`],
  ['SH_COMMENT', String.raw`#[^\n]*`],
  ['CPP_COMMENT', String.raw`\/\/[^\n]*`],
  ['C_COMMENT', String.raw`\/\*(?:[^*]|\*+[^*\/])*\*+\/`],
  ['SQL_COMMENT', String.raw`--[^\n]*`],
])

/** The value of a quoted text, and whether case is ignored. Only what Lark knows is an escape, any other backslash stays. */
function readText(text: string): { readonly value: string; readonly ignoresCase: boolean } {
  const ignoresCase = text.endsWith('i')
  const inside = text.slice(1, ignoresCase ? -2 : -1)
  const value = inside.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gu,
    (_, x?: string, u?: string, long?: string, other = '') => {
      const hex = x ?? u ?? long
      if (hex === undefined)
        return { n: '\n', t: '\t', r: '\r', f: '\f', '"': '"', "'": "'", '\\': '\\' }[String(other)] ?? `\\${other}`
      const code = Number.parseInt(hex, 16)
      if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) throw new PatternError('names no character')
      return String.fromCodePoint(code)
    },
  )
  return { value, ignoresCase }
}

/** A text in quotes. @throws {PatternError} */
export function textTerminal(text: string): string {
  const { value, ignoresCase } = readText(text)
  if (!ignoresCase || value === '') return quoted(value)
  return Array.from(value, (character) => textCharacter(withBothCases([codeRange(character, character)]))).join(' ')
}

/** One character from one text of a single character to another. @throws {PatternError} */
export function rangeTerminal(from: string, to: string): string {
  const [first, last] = [readText(from).value, readText(to).value]
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
