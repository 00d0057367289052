/**
 * Python's literals and calls, read and given as JSON text: `f(a='x', b=[1, None])`. Numbers keep their digits. Also in the form of
 * Gemma's calls, with keys that have no quotes and its own quotation mark.
 */
import type { WrittenCall } from './call-format.js'

export interface Notation {
  /** Marks around texts, each its own end; escapes are read between `'` and `"` only. */
  readonly quotes: readonly string[]
  /** Keys of mappings may be names without quotes. */
  readonly hasBareKeys: boolean
}

export const PYTHON: Notation = { quotes: ['"""', "'''", '"', "'"], hasBareKeys: false }

const CONSTANTS: Readonly<Record<string, string>> = {
  ...{ True: 'true', False: 'false', None: 'null' },
  ...{ true: 'true', false: 'false', null: 'null' },
}
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', a: '\x07', '0': '\0', '\n': '' },
  ...{ "'": "'", '"': '"', '\\': '\\' },
}
const MAX_DEPTH = 64

/** Thrown and caught in here: what is read is no literal. */
class Mismatch extends Error {}

export class LiteralReader {
  readonly #text: string
  readonly #notation: Notation
  #at = 0

  constructor(text: string, notation: Notation) {
    this.#text = text
    this.#notation = notation
  }

  /** Whether only white space is left. */
  get isAtEnd(): boolean {
    this.#skip()
    return this.#at >= this.#text.length
  }

  /** Takes the mark if it comes next. */
  takes(mark: string): boolean {
    this.#skip()
    if (!this.#text.startsWith(mark, this.#at)) return false
    this.#at += mark.length
    return true
  }

  expect(mark: string): void {
    if (!this.takes(mark)) throw new Mismatch()
  }

  name(): string {
    return this.#match(/[\p{L}_][\p{L}\p{N}_.-]*/uy)
  }

  /** A value as JSON text. */
  value(depth = 0): string {
    if (depth > MAX_DEPTH) throw new Mismatch()
    const quote = this.#notation.quotes.find((mark) => this.takes(mark))
    if (quote !== undefined) return JSON.stringify(this.#string(quote))
    if (this.takes('[')) return `[${this.#items(']', depth).join(', ')}]`
    if (this.takes('(')) return `[${this.#items(')', depth).join(', ')}]`
    if (this.takes('{')) return this.mapping(depth + 1)
    const word = this.#match(/[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\w+/y)
    const constant = CONSTANTS[word]
    if (constant !== undefined) return constant
    const number = /^[-+]?(?:(0|[1-9][\d_]*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/.exec(word)
    if (number === null) throw new Mismatch()
    return jsonNumber(word)
  }

  /** The members of a mapping behind its opening mark, and the closing one. */
  mapping(depth: number): string {
    const members: string[] = []
    while (!this.takes('}')) {
      if (members.length > 0) this.expect(',')
      if (this.takes('}')) break
      const isBare = this.#notation.hasBareKeys && !this.#notation.quotes.some((mark) => this.#isNext(mark))
      const key = isBare ? JSON.stringify(this.#match(/[^:{}[\],]+/y).trim()) : this.value(depth)
      if (!key.startsWith('"')) throw new Mismatch()
      this.expect(':')
      members.push(`${key}: ${this.value(depth)}`)
    }
    return `{${members.join(', ')}}`
  }

  #items(end: string, depth: number): string[] {
    const items: string[] = []
    while (!this.takes(end)) {
      if (items.length > 0) this.expect(',')
      if (this.takes(end)) break
      items.push(this.value(depth + 1))
    }
    return items
  }

  #string(quote: string): string {
    let text = ''
    const hasEscapes = quote.startsWith("'") || quote.startsWith('"')
    for (;;) {
      if (this.#at >= this.#text.length) throw new Mismatch()
      if (this.#text.startsWith(quote, this.#at)) break
      const character = this.#text.charAt(this.#at++)
      text += hasEscapes && character === '\\' ? this.#escape() : character
    }
    this.#at += quote.length
    return text
  }

  #escape(): string {
    const kind = this.#text.charAt(this.#at++)
    const digits = { x: 2, u: 4, U: 8 }[kind]
    if (digits === undefined) return ESCAPES[kind] ?? `\\${kind}`
    const code = this.#text.slice(this.#at, this.#at + digits)
    if (!/^[\da-fA-F]+$/.test(code) || code.length < digits || Number.parseInt(code, 16) > 0x10ffff)
      throw new Mismatch()
    this.#at += digits
    return String.fromCodePoint(Number.parseInt(code, 16))
  }

  #isNext(mark: string): boolean {
    this.#skip()
    return this.#text.startsWith(mark, this.#at)
  }

  #match(pattern: RegExp): string {
    this.#skip()
    pattern.lastIndex = this.#at
    const [found] = pattern.exec(this.#text) ?? []
    if (found === undefined) throw new Mismatch()
    this.#at += found.length
    return found
  }

  #skip(): void {
    while (/\s/.test(this.#text.charAt(this.#at))) this.#at++
  }
}

/** JSON has no plus sign, no underscores, and digits on both sides of a point. */
function jsonNumber(text: string): string {
  return text
    .replace(/^\+/, '')
    .replaceAll('_', '')
    .replace(/^(-?)\./, '$10.')
    .replace(/\.(?=$|[eE])/, '.0')
}

/** What a reading comes to; null where the text is no literal. */
export function readLiteral<T>(read: () => T): T | null {
  try {
    return read()
  } catch (error) {
    if (error instanceof Mismatch) return null
    throw error
  }
}

/** Calls by name as Python writes them, in a list or alone: `[f(a=1), g()]`. */
export function readPythonCalls(text: string): readonly WrittenCall[] | null {
  return readLiteral(() => {
    const reader = new LiteralReader(text, PYTHON)
    const calls: WrittenCall[] = []
    const isList = reader.takes('[')
    while (!reader.isAtEnd && !(isList && reader.takes(']'))) {
      if (calls.length > 0 && isList) reader.expect(',')
      if (isList && calls.length > 0 && reader.takes(']')) break
      calls.push(readCall(reader))
    }
    if (!reader.isAtEnd || (isList && !/\]\s*$/.test(text))) throw new Mismatch()
    return calls
  })
}

function readCall(reader: LiteralReader): WrittenCall {
  const name = reader.name()
  reader.expect('(')
  const members: string[] = []
  while (!reader.takes(')')) {
    if (members.length > 0) reader.expect(',')
    if (reader.takes(')')) break
    const key = reader.name()
    reader.expect('=')
    members.push(`${JSON.stringify(key)}: ${reader.value()}`)
  }
  return { name, arguments: `{${members.join(', ')}}` }
}
