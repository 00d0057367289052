/**
 * Reads a regular expression into EBNF. How characters are written there, and what else its author's language means by it, is the
 * caller's: patterns of JSON schemas and terminals of Lark are read here.
 */
import { append } from '#base/util/lists.js'
import { checkHeap } from '../heap-limit.js'
import { type CodeRange, complement } from './character-class.js'

/** Why a pattern cannot be honoured, as the end of a sentence about it. */
export class PatternError extends Error {}

/** What an expression means where languages differ. */
export interface PatternStyle {
  /** One character of the ranges, as one element that a quantifier may follow. */
  character(ranges: readonly CodeRange[]): string
  /** The ranges with whatever counts as equal to them. */
  readonly fold?: (ranges: readonly CodeRange[]) => readonly CodeRange[]
  /** What the point does not stand for. */
  readonly lineEnds: readonly CodeRange[]
  /** The expression is the whole text: anchors at its ends and how much a part takes first change nothing. */
  readonly isWhole: boolean
}

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
const CLASSES: Readonly<Record<string, readonly CodeRange[]>> = { d: DIGITS, w: WORD, s: SPACE }
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, '0': 0 }

/** @throws {PatternError} for what looks around or refers back, and where anchors or a lazy quantifier have a meaning */
export function readPattern(pattern: string, style: PatternStyle): string {
  return new PatternReader(pattern, style).read()
}

class PatternReader {
  readonly #characters: readonly string[]
  readonly #style: PatternStyle
  #at = 0

  constructor(pattern: string, style: PatternStyle) {
    this.#characters = Array.from(pattern)
    this.#style = style
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
        if (!this.#style.isWhole) throw new PatternError('uses "^", which is not supported')
        if (parts.length > 0) throw new PatternError('has "^" in its middle')
        continue
      }
      if (this.#takes('$')) {
        if (!this.#style.isWhole) throw new PatternError('uses "$", which is not supported')
        if (this.#next !== undefined && this.#next !== '|' && this.#next !== ')') {
          throw new PatternError('has "$" in its middle')
        }
        continue
      }
      parts.push(`${this.#atom()}${this.#quantifier()}`)
      checkHeap()
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
    if (quantifier !== '' && this.#takes('?') && !this.#style.isWhole) {
      throw new PatternError(`is lazy ("${quantifier}?"), which is not supported: name what may not come, like [^"]*`)
    }
    return quantifier
  }

  #atom(): string {
    const character = this.#take()
    if (character === '(') return this.#group()
    if (character === '[') return this.#class()
    if (character === '.') return this.#style.character(complement(this.#style.lineEnds))
    if (character === '\\') {
      const escaped = this.#escape(false)
      return this.#character(typeof escaped === 'number' ? [[escaped, escaped]] : escaped)
    }
    const code = character.codePointAt(0) ?? 0
    return this.#character([[code, code]])
  }

  #character(ranges: readonly CodeRange[], isNegated = false): string {
    const all = this.#style.fold?.(ranges) ?? ranges
    return this.#style.character(isNegated ? complement(all) : all)
  }

  #group(): string {
    if (this.#takes('?')) {
      const name = /^P?<[^>=!]+>/.exec(this.#characters.slice(this.#at).join(''))
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
        append(ranges, typeof from === 'number' ? [[from, from] as const] : from)
        continue
      }
      this.#at++
      const to = this.#classPart()
      if (typeof to !== 'number') throw new PatternError('is not a regular expression')
      ranges.push([from, to])
    }
    return this.#character(ranges, isNegated)
  }

  #classPart(): number | readonly CodeRange[] {
    const character = this.#take()
    return character === '\\' ? this.#escape(true) : (character.codePointAt(0) ?? 0)
  }
}
