/**
 * Reads regular expressions: what JavaScript's flag `u` means by them, and beyond it what Python, PCRE, Java and Rust spell alike
 * (escapes of signs that need none, flags in front, `\A` and `\Z`). Where languages read the same text differently it is refused.
 *
 * What comes out knows characters alone, never bytes; `pattern-writer.ts` writes it. Source: ECMA-262, 22.2; Python's `re`.
 */
import { append } from '#base/util/lists.js'
import { checkHeap } from '../heap-limit.js'
import { type CodeRange, complement } from './character-class.js'
import { propertyRanges, withBothCases } from './unicode-classes.js'

/** Why an expression cannot be honoured, as the end of a sentence about it. */
export class PatternError extends Error {}

/** It is a regular expression in no language. */
export class PatternSyntaxError extends PatternError {}

/** A regular expression whose anchors at its ends are left out: it is for a whole text. */
export type PatternNode =
  | { readonly kind: 'characters'; readonly ranges: readonly CodeRange[] }
  | { readonly kind: 'alternatives' | 'sequence'; readonly parts: readonly PatternNode[] }
  /** @property most null: any number */
  | { readonly kind: 'repeat'; readonly part: PatternNode; readonly least: number; readonly most: number | null }

type Anchor = { readonly kind: 'start' | 'end' }
type RawNode =
  | Extract<PatternNode, { kind: 'characters' }>
  | Anchor
  | { readonly kind: 'alternatives' | 'sequence'; readonly parts: readonly RawNode[] }
  | { readonly kind: 'repeat'; readonly part: RawNode; readonly least: number; readonly most: number | null }

/** What an expression means where its authors' languages differ. */
export interface PatternDialect {
  /** What the point does not stand for; absent: what ends a line in JavaScript. */
  readonly lineEnds?: readonly CodeRange[]
  readonly ignoresCase?: boolean
  /** False: it is part of a longer text, so that anchors, and how much a lazy part takes, have a meaning. */
  readonly isWhole?: boolean
  /** Characters that the text can come to: more often nothing is repeated. */
  readonly reach?: number
}

const LINE_ENDS: readonly CodeRange[] = [
  [10, 10],
  [13, 13],
  [0x2028, 0x2029],
]
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
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 }
const ANCHORS: Readonly<Record<string, Anchor['kind']>> = { A: 'start', Z: 'end', z: 'end' }
/** More is a mistake, and beyond the numbers of the grammar's compiler. */
const MOST_TIMES = 1_000_000
/** Groups whose meaning is known and not kept, by what follows their `(?`. */
const UNKEPT_GROUPS: readonly (readonly [RegExp, string])[] = [
  [/^<?[=!]/, 'looks around'],
  [/^>/, 'has an atomic group'],
  [/^\|/, 'has a branch reset'],
  [/^P=/, 'refers back'],
  [/^(?:R|\d|[+-]\d|&|P>)/, 'calls itself'],
  [/^\(/, 'has a condition'],
]

/**
 * @throws {PatternSyntaxError} for what is no regular expression
 * @throws {PatternError} for what looks around or refers back, where anchors stand within, and for what languages read differently
 */
export function parsePattern(pattern: string, dialect: PatternDialect = {}): PatternNode {
  return new PatternReader(pattern, dialect).read()
}

interface Flags {
  readonly ignoresCase: boolean
  readonly isPointAll: boolean
}

const EMPTY = { kind: 'sequence', parts: [] } as const

class PatternReader {
  readonly #characters: readonly string[]
  readonly #lineEnds: readonly CodeRange[]
  readonly #isWhole: boolean
  readonly #reach: number
  #flags: Flags
  /** What was met first that cannot be kept: all is read, for a mistake behind it is one in every language. */
  #unkept: string | null = null
  #at = 0

  constructor(pattern: string, { lineEnds = LINE_ENDS, ignoresCase = false, isWhole = true, reach }: PatternDialect) {
    this.#characters = Array.from(pattern)
    this.#lineEnds = lineEnds
    this.#isWhole = isWhole
    this.#reach = reach ?? Number.POSITIVE_INFINITY
    this.#flags = { ignoresCase, isPointAll: false }
  }

  read(): PatternNode {
    const node = this.#alternatives()
    if (this.#at < this.#characters.length) throw new PatternSyntaxError('closes a group that it did not open')
    if (this.#unkept !== null) throw new PatternError(this.#unkept)
    return withoutAnchors(node, { isFirst: true, isLast: true })
  }

  get #next(): string | undefined {
    return this.#characters[this.#at]
  }

  #take(): string {
    const character = this.#characters[this.#at++]
    if (character === undefined) throw new PatternSyntaxError('ends too early')
    return character
  }

  #takes(text: string): boolean {
    for (let i = 0; i < text.length; i++) if (this.#characters[this.#at + i] !== text[i]) return false
    this.#at += text.length
    return true
  }

  /** The next characters, as many as any short sign has. */
  #ahead(count = 80): string {
    return this.#characters.slice(this.#at, this.#at + count).join('')
  }

  #leave(what: string): void {
    this.#unkept ??= what
  }

  #alternatives(): RawNode {
    const before = this.#flags
    const parts = [this.#sequence()]
    while (this.#takes('|')) parts.push(this.#sequence())
    this.#flags = before
    return parts.length === 1 ? (parts[0] ?? EMPTY) : { kind: 'alternatives', parts }
  }

  #sequence(): RawNode {
    const parts: RawNode[] = []
    while (this.#next !== undefined && this.#next !== '|' && this.#next !== ')') {
      const atom = this.#atom()
      if (atom !== null) parts.push(this.#repeated(atom))
      checkHeap()
    }
    return { kind: 'sequence', parts }
  }

  #repeated(part: RawNode): RawNode {
    const times = this.#times()
    if (times === null) return part
    const [least, most] = times
    if (part.kind === 'start' || part.kind === 'end') this.#leave('repeats an anchor, which is not supported')
    if (this.#takes('+')) this.#leave('has a possessive quantifier, which is not supported')
    else if (this.#takes('?') && !this.#isWhole) {
      this.#leave('is lazy, which is not supported: name what may not come, like [^"]*')
    }
    if (this.#times() !== null) throw new PatternSyntaxError('repeats what is repeated already')
    return { kind: 'repeat', part, least, most }
  }

  #times(): readonly [least: number, most: number | null] | null {
    if (this.#takes('*')) return [0, null]
    if (this.#takes('+')) return [1, null]
    if (this.#takes('?')) return [0, 1]
    if (this.#next !== '{') return null
    const [whole = '', first, comma, second = ''] = /^\{(\d*)(,?)(\d*)\}/.exec(this.#ahead(40)) ?? []
    if (first === undefined || (first === '' && second === '')) return null
    this.#at += whole.length
    if (first === '') this.#leave('has a repetition without its beginning: write {0,n}')
    const [least, most] = [Number(first), second === '' ? null : Number(second)]
    if (most !== null && most < least)
      throw new PatternSyntaxError(`has a repetition that ends before it begins: ${whole}`)
    const isReached = this.#reach === Number.POSITIVE_INFINITY
    if (isReached && Math.max(least, most ?? 0) > MOST_TIMES) this.#leave(`repeats more than ${MOST_TIMES} times`)
    const last = comma === '' ? least : most
    return [Math.min(least, this.#reach), last === null || last > this.#reach ? null : last]
  }

  /** Null: what says something of the rest alone. */
  #atom(): RawNode | null {
    if (this.#times() !== null) throw new PatternSyntaxError('has nothing to repeat')
    const character = this.#take()
    switch (character) {
      case '(':
        return this.#group()
      case '[':
        return this.#class()
      case '.':
        return { kind: 'characters', ranges: complement(this.#flags.isPointAll ? [] : this.#lineEnds) }
      case '^':
        return this.#anchor('start', '^')
      case '$':
        return this.#anchor('end', '$')
      case '\\': {
        const anchor = ANCHORS[this.#next ?? '']
        if (anchor !== undefined) return this.#anchor(anchor, `\\${this.#take()}`)
        return this.#charactersOf(this.#escape(false))
      }
      default:
        return this.#charactersOf(character.codePointAt(0) ?? 0)
    }
  }

  #anchor(kind: Anchor['kind'], spelled: string): RawNode {
    if (!this.#isWhole) this.#leave(`uses "${spelled}", which is not supported`)
    return { kind }
  }

  #charactersOf(part: number | readonly CodeRange[]): RawNode {
    const ranges: readonly CodeRange[] = typeof part === 'number' ? [[part, part]] : part
    return { kind: 'characters', ranges: this.#folded(ranges) }
  }

  #folded(ranges: readonly CodeRange[]): readonly CodeRange[] {
    return this.#flags.ignoresCase ? withBothCases(ranges) : ranges
  }

  #group(): RawNode | null {
    const outer = this.#flags
    if (this.#takes('?')) {
      const rest = this.#ahead()
      const name = /^(?:P?<[^>=!\s][^>]*>|'[^']+'|:)/u.exec(rest)
      const flags = /^([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])/.exec(rest)
      const unkept = UNKEPT_GROUPS.find(([sign]) => sign.test(rest))
      if (rest.startsWith('#')) {
        while (this.#take() !== ')');
        return null
      }
      if (name !== null) this.#at += Array.from(name[0]).length
      else if (flags !== null && flags[0].length > 1) {
        this.#at += flags[0].length
        this.#flags = this.#withFlags(flags[1] ?? '', flags[2] ?? '')
        // until the end of the group that it stands in
        if (flags[3] === ')') return null
      } else if (unkept !== undefined) {
        this.#leave(`${unkept[1]}, which is not supported`)
        return this.#skipGroup(unkept[0].exec(rest)?.[0] ?? '')
      } else throw new PatternSyntaxError(`has a group of no known kind: (?${rest.slice(0, 10)}`)
    }
    const node = this.#alternatives()
    if (!this.#takes(')')) throw new PatternSyntaxError('does not close a group')
    this.#flags = outer
    return node
  }

  /** What stands in it is read, for its mistakes. */
  #skipGroup(sign: string): RawNode {
    this.#at += sign.length
    if (/[=!>|]$/.test(sign) && !sign.endsWith('P=') && !sign.endsWith('P>')) {
      this.#alternatives()
      if (!this.#takes(')')) throw new PatternSyntaxError('does not close a group')
      return EMPTY
    }
    let depth = sign === '(' ? 2 : 1
    while (depth > 0) {
      const character = this.#take()
      if (character === '\\') this.#take()
      else depth += character === '(' ? 1 : character === ')' ? -1 : 0
    }
    return EMPTY
  }

  #withFlags(on: string, off: string): Flags {
    const unknown = /[^imsua]/.exec(on + off)
    if (unknown !== null) this.#leave(`has the flag "${unknown[0]}", which is not supported`)
    const { ignoresCase, isPointAll } = this.#flags
    return {
      ignoresCase: (ignoresCase || on.includes('i')) && !off.includes('i'),
      isPointAll: (isPointAll || on.includes('s')) && !off.includes('s'),
    }
  }

  /** One character, or what a class of characters holds. */
  #escape(isInClass: boolean): number | readonly CodeRange[] {
    const letter = this.#take()
    const named = CLASSES[letter.toLowerCase()]
    if (named !== undefined) {
      const all = letter.toLowerCase() === 'w' ? this.#folded(named) : named
      return letter === letter.toLowerCase() ? all : complement(all)
    }
    if (letter === 'b' && isInClass) return 8
    const control = CONTROLS[letter]
    if (control !== undefined) return control
    switch (letter) {
      case '0':
        if (/^\d/.test(this.#next ?? '')) break
        return 0
      case 'c':
        if (!/^[A-Za-z]$/.test(this.#next ?? '')) break
        return (this.#take().codePointAt(0) ?? 0) % 32
      case 'x':
        return this.#next === '{' ? this.#braced(letter) : this.#hex(letter, 2)
      case 'u':
        return this.#next === '{' ? this.#braced(letter) : this.#unicode()
      case 'U':
        return this.#hex(letter, 8)
      case 'p':
      case 'P':
        return this.#property(letter === 'P')
    }
    if (/[a-zA-Z0-9]/.test(letter)) this.#leave(`uses "\\${letter}", which is not supported`)
    return letter.codePointAt(0) ?? 0
  }

  #property(isNegated: boolean): readonly CodeRange[] {
    const [whole = '', inverted, braced, short] = /^(?:\{(\^?)([^}]*)\}|([A-Z]))/.exec(this.#ahead(140)) ?? []
    this.#at += Array.from(whole).length
    const name = braced ?? short ?? ''
    const ranges = propertyRanges(name) ?? (name.startsWith('Is') ? propertyRanges(name.slice(2)) : null)
    if (ranges === null) this.#leave(`uses "\\p${whole}", a property of characters that is not known`)
    return isNegated === (inverted === '^') ? (ranges ?? []) : complement(ranges ?? [])
  }

  #unicode(): number {
    const first = this.#hex('u', 4)
    const [, second] = /^\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(this.#ahead(6)) ?? []
    if (first < 0xd800 || first > 0xdbff || second === undefined) return first
    this.#at += 6
    return 0x10000 + ((first - 0xd800) << 10) + (Number.parseInt(second, 16) - 0xdc00)
  }

  #braced(letter: string): number {
    const [whole, digits = ''] = /^\{([0-9a-fA-F]{1,8})\}/.exec(this.#ahead(12)) ?? []
    this.#at += whole?.length ?? 0
    return this.#codeOf(letter, digits)
  }

  #hex(letter: string, count: number): number {
    const digits = this.#ahead(count)
    if (digits.length === count && /^[0-9a-fA-F]+$/.test(digits)) this.#at += count
    return this.#codeOf(letter, digits.length === count ? digits : '')
  }

  #codeOf(letter: string, digits: string): number {
    const code = /^[0-9a-fA-F]+$/.test(digits) ? Number.parseInt(digits, 16) : Number.NaN
    if (code <= 0x10ffff) return code
    this.#leave(`uses "\\${letter}" without the number of a character`)
    return letter.codePointAt(0) ?? 0
  }

  #class(): RawNode {
    const isNegated = this.#takes('^')
    // a member of the class to Python, its end to JavaScript
    if (this.#next === ']' && this.#characters.includes(']', this.#at + 1)) {
      this.#leave('has a class that begins with "]": write "\\]"')
      this.#at++
    }
    const ranges: CodeRange[] = []
    while (!this.#takes(']')) {
      this.#checkClassSign()
      const from = this.#classPart()
      const isRange = this.#next === '-' && this.#characters[this.#at + 1] !== ']'
      if (typeof from !== 'number') {
        append(ranges, from)
        continue
      }
      const start = this.#at
      if (isRange) {
        this.#at++
        const to = this.#classPart()
        if (typeof to === 'number') {
          if (to < from) throw new PatternSyntaxError(`has a range of characters that ends before it begins`)
          ranges.push([from, to])
          continue
        }
        this.#at = start
      }
      ranges.push([from, from])
    }
    const all = this.#folded(ranges)
    return { kind: 'characters', ranges: isNegated ? complement(all) : all }
  }

  /** What is a sign of its own in the classes of some languages. */
  #checkClassSign(): void {
    const [sign] = /^(?:\[[:.=]|&&|--(?!\])|~~|\|\|)/.exec(this.#ahead(3)) ?? []
    if (sign !== undefined) this.#leave(`has "${sign}" in a class, which languages read differently: escape it`)
  }

  #classPart(): number | readonly CodeRange[] {
    const character = this.#take()
    return character === '\\' ? this.#escape(true) : (character.codePointAt(0) ?? 0)
  }
}

/** Where a part stands in the whole text: nothing can come before it, or behind it. */
interface Edges {
  readonly isFirst: boolean
  readonly isLast: boolean
}

/** Anchors at the ends of the whole text change nothing; others could never be met, or only at a line's end. */
function withoutAnchors(node: RawNode, edges: Edges): PatternNode {
  switch (node.kind) {
    case 'characters':
      return node
    case 'start':
    case 'end': {
      const isAtEdge = node.kind === 'start' ? edges.isFirst : edges.isLast
      if (!isAtEdge) throw new PatternError(`has "${node.kind === 'start' ? '^' : '$'}" in its middle`)
      return EMPTY
    }
    case 'alternatives':
      return { kind: 'alternatives', parts: node.parts.map((part) => withoutAnchors(part, edges)) }
    case 'sequence': {
      const first = node.parts.findIndex((part) => !isEmpty(part))
      const last = node.parts.findLastIndex((part) => !isEmpty(part))
      const edgesAt = (index: number): Edges => ({
        isFirst: edges.isFirst && (first < 0 || index <= first),
        isLast: edges.isLast && index >= last,
      })
      return { kind: 'sequence', parts: node.parts.map((part, index) => withoutAnchors(part, edgesAt(index))) }
    }
    case 'repeat': {
      const isOnce = node.most !== null && node.most <= 1
      const part = withoutAnchors(node.part, isOnce ? edges : { isFirst: false, isLast: false })
      return { ...node, part }
    }
  }
}

/** Whether it stands for no character, whatever comes. */
function isEmpty(node: RawNode): boolean {
  switch (node.kind) {
    case 'characters':
      return false
    case 'start':
    case 'end':
      return true
    case 'repeat':
      return node.most === 0 || isEmpty(node.part)
    default:
      return node.parts.every(isEmpty)
  }
}
