/**
 * Strings of a JSON Schema as rules of EBNF: a regular expression or bounds of length, on the text that JSON writes.
 *
 * xgrammar 0.1.27 matches patterns against the text between the quotes, so that `.` lets a quote through and the answer is no JSON.
 * Here every character stands as JSON writes it, quotes and control characters by their escapes. The whole text matches the
 * expression, which JSON Schema, where it may match anywhere, allows.
 */

import { type CodeRange, classAlternatives, complement, plainPart } from './character-class.js'

/** Why a pattern cannot be honoured, as the end of a sentence about it. */
export class PatternError extends Error {}

const DIGITS: readonly CodeRange[] = [[0x30, 0x39]]
const WORD: readonly CodeRange[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]
const SPACE: readonly CodeRange[] = [
  [9, 13],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]
const LINE_ENDS: readonly CodeRange[] = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]
const CLASSES: Readonly<Record<string, readonly CodeRange[]>> = { d: DIGITS, w: WORD, s: SPACE }
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, '0': 0 }

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
  try {
    new RegExp(pattern, 'u')
  } catch {
    throw new PatternError('is not a regular expression')
  }
  const reader = new PatternReader(pattern)
  return String.raw`"\"" (${reader.read()}) "\""`
}

class PatternReader {
  readonly #characters: readonly string[]
  #at = 0

  constructor(pattern: string) {
    this.#characters = Array.from(pattern)
  }

  read(): string {
    const rule = this.#alternatives()
    if (this.#at < this.#characters.length) throw new PatternError('is not a regular expression')
    return rule
  }

  get #next(): string | undefined {
    return this.#characters[this.#at]
  }

  #take(): string {
    const character = this.#characters[this.#at++]
    if (character === undefined) throw new PatternError('ends too early')
    return character
  }

  #takes(text: string): boolean {
    if (this.#characters.slice(this.#at, this.#at + text.length).join('') !== text) return false
    this.#at += text.length
    return true
  }

  #alternatives(): string {
    const options = [this.#sequence()]
    while (this.#takes('|')) options.push(this.#sequence())
    return options.join(' | ')
  }

  #sequence(): string {
    const parts: string[] = []
    while (this.#next !== undefined && this.#next !== '|' && this.#next !== ')') {
      if (this.#takes('^')) {
        if (parts.length > 0) throw new PatternError('has "^" in its middle')
        continue
      }
      if (this.#takes('$')) {
        if (this.#next !== undefined && this.#next !== '|' && this.#next !== ')') {
          throw new PatternError('has "$" in its middle')
        }
        continue
      }
      parts.push(`${this.#atom()}${this.#quantifier()}`)
    }
    return parts.length === 0 ? '""' : parts.join(' ')
  }

  #quantifier(): string {
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.#characters.slice(this.#at, this.#at + 24).join(''))
    let quantifier = ''
    if (counted !== null) {
      const [whole, least = '0', comma, most = ''] = counted
      this.#at += whole.length
      quantifier = `{${least},${comma === '' ? least : most}}`
    } else if (this.#next === '*' || this.#next === '+' || this.#next === '?') quantifier = this.#take()
    // how much a part takes first does not change what matches as a whole
    if (quantifier !== '') this.#takes('?')
    return quantifier
  }

  #atom(): string {
    const character = this.#take()
    if (character === '(') return this.#group()
    if (character === '[') return this.#class()
    if (character === '.') return characterRule(complement(LINE_ENDS))
    if (character === '\\') {
      const escaped = this.#escape(false)
      return typeof escaped === 'number' ? characterRule([[escaped, escaped]]) : characterRule(escaped)
    }
    const code = character.codePointAt(0) ?? 0
    return characterRule([[code, code]])
  }

  #group(): string {
    if (this.#takes('?')) {
      const name = /^<[^>=!]+>/.exec(this.#characters.slice(this.#at).join(''))
      if (name !== null) this.#at += Array.from(name[0]).length
      else if (!this.#takes(':')) throw new PatternError('looks around, which is not supported')
    }
    const rule = this.#alternatives()
    if (this.#take() !== ')') throw new PatternError('is not a regular expression')
    return `(${rule})`
  }

  /** One character, or what a class of characters holds. */
  #escape(isInClass: boolean): number | readonly CodeRange[] {
    const letter = this.#take()
    const named = CLASSES[letter.toLowerCase()]
    if (named !== undefined) return letter === letter.toLowerCase() ? named : complement(named)
    if (letter === 'b' && isInClass) return 8
    const control = CONTROLS[letter]
    if (control !== undefined) return control
    if (letter === 'c') return (this.#take().codePointAt(0) ?? 0) % 32
    if (letter === 'x') return this.#hex(2)
    if (letter === 'u') return this.#unicode()
    if (/[a-zA-Z0-9]/.test(letter)) throw new PatternError(`uses "\\${letter}", which is not supported`)
    return letter.codePointAt(0) ?? 0
  }

  #unicode(): number {
    if (this.#takes('{')) {
      let digits = ''
      while (this.#next !== '}') digits += this.#take()
      this.#at++
      return Number.parseInt(digits, 16)
    }
    const first = this.#hex(4)
    if (first < 0xd800 || first > 0xdbff || !this.#takes('\\u')) return first
    return 0x10000 + ((first - 0xd800) << 10) + (this.#hex(4) - 0xdc00)
  }

  #hex(count: number): number {
    let digits = ''
    for (let i = 0; i < count; i++) digits += this.#take()
    return Number.parseInt(digits, 16)
  }

  #class(): string {
    const isNegated = this.#takes('^')
    const ranges: CodeRange[] = []
    while (!this.#takes(']')) {
      const from = this.#classPart()
      if (typeof from !== 'number' || this.#next !== '-' || this.#characters[this.#at + 1] === ']') {
        ranges.push(...(typeof from === 'number' ? [[from, from] as const] : from))
        continue
      }
      this.#at++
      const to = this.#classPart()
      if (typeof to !== 'number') throw new PatternError('is not a regular expression')
      ranges.push([from, to])
    }
    return characterRule(isNegated ? complement(ranges) : ranges)
  }

  #classPart(): number | readonly CodeRange[] {
    const character = this.#take()
    return character === '\\' ? this.#escape(true) : (character.codePointAt(0) ?? 0)
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
