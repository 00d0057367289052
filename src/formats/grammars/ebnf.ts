/**
 * Reads EBNF as people write it (GBNF of llama.cpp, xgrammar's own), for checks of finished answers: by other code than what
 * writes the grammar that holds them (`inference/grammar/ebnf.ts`).
 */
import { choiceOf, type Expression, type Grammar, sequenceOf, UnknownForm } from './expression.js'

const TOKEN =
  /(?<space>\s+|#[^\n]*)|(?<text>"(?:\\[\s\S]|[^"\\])*")|(?<class>\[\^?(?:\\[\s\S]|[^\]\\])*\])|(?<name>[A-Za-z_-][\w.-]*)|(?<times>\{\s*\d+\s*(?:,\s*\d*\s*)?\})|(?<sign>::=|[.|()*+?])/uy
const ESCAPES: Readonly<Record<string, number>> = { a: 7, b: 8, e: 27, f: 12, n: 10, r: 13, t: 9, v: 11, '0': 0 }
const CODE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,8})\}|([\s\S]))/gu
const SIGNS: Readonly<Record<string, readonly [least: number, most: number]>> = {
  '*': [0, Number.POSITIVE_INFINITY],
  '+': [1, Number.POSITIVE_INFINITY],
  '?': [0, 1],
}

interface Token {
  readonly kind: string
  readonly text: string
}

/** @throws {UnknownForm} */
export function readEbnf(grammar: string): Grammar {
  return new EbnfReader(readTokens(grammar)).read()
}

class EbnfReader {
  readonly #tokens: readonly Token[]
  #at = 0

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens
  }

  read(): Grammar {
    const rules = new Map<string, Expression>()
    while (this.#at < this.#tokens.length) {
      if (!this.#isAtRule) throw new UnknownForm()
      const { text: name } = this.#tokens[this.#at] as Token
      this.#at += 2
      if (rules.has(name)) throw new UnknownForm()
      rules.set(name, this.#alternatives())
    }
    return { root: 'root', rules }
  }

  get #isAtRule(): boolean {
    return this.#tokens[this.#at]?.kind === 'name' && this.#tokens[this.#at + 1]?.text === '::='
  }

  #takes(sign: string): boolean {
    if (this.#tokens[this.#at]?.kind !== 'sign' || this.#tokens[this.#at]?.text !== sign) return false
    this.#at += 1
    return true
  }

  #alternatives(): Expression {
    const options = [this.#sequence()]
    while (this.#takes('|')) options.push(this.#sequence())
    return choiceOf(options)
  }

  #sequence(): Expression {
    const parts: Expression[] = []
    for (;;) {
      const token = this.#tokens[this.#at]
      if (token === undefined || this.#isAtRule || token.text === '|' || token.text === ')') return sequenceOf(parts)
      let part = this.#atom(token)
      for (let times = this.#times(); times !== null; times = this.#times()) {
        part = { kind: 'repeat', part, least: times[0], most: times[1] }
      }
      parts.push(part)
    }
  }

  #times(): readonly [number, number] | null {
    const token = this.#tokens[this.#at]
    const known = token?.kind === 'sign' ? SIGNS[token.text] : undefined
    if (known !== undefined) this.#at += 1
    if (known !== undefined || token?.kind !== 'times') return known ?? null
    this.#at += 1
    const [least = '', most] = token.text.slice(1, -1).split(',')
    if (most === undefined) return [Number(least), Number(least)]
    return [Number(least), most.trim() === '' ? Number.POSITIVE_INFINITY : Number(most)]
  }

  #atom({ kind, text }: Token): Expression {
    this.#at += 1
    if (kind === 'text') {
      const source = { text, line: 0 }
      return { kind: 'text', text: textOf(text.slice(1, -1)), ignoresCase: false, source }
    }
    if (kind === 'class') return { kind: 'class', characters: classOf(text) }
    if (kind === 'name') return { kind: 'rule', name: text }
    if (text === '.') return { kind: 'class', characters: /^[\s\S]$/u }
    if (text !== '(') throw new UnknownForm()
    const inside = this.#alternatives()
    if (!this.#takes(')')) throw new UnknownForm()
    return inside
  }
}

function readTokens(grammar: string): readonly Token[] {
  const tokens: Token[] = []
  TOKEN.lastIndex = 0
  for (let at = 0; at < grammar.length; at = TOKEN.lastIndex) {
    const found = TOKEN.exec(grammar)
    if (found?.groups === undefined) throw new UnknownForm()
    const kind = Object.entries(found.groups).find(([, group]) => group !== undefined)?.[0] ?? ''
    if (kind !== 'space') tokens.push({ kind, text: found[0] })
  }
  return tokens
}

function textOf(inside: string): string {
  return inside.replace(CODE, (_, x?: string, u?: string, long?: string, braced?: string, sign = '') => {
    const hex = x ?? u ?? long ?? braced
    return characterOf(hex === undefined ? (ESCAPES[sign] ?? sign.codePointAt(0)) : Number.parseInt(hex, 16))
  })
}

function classOf(text: string): RegExp {
  const isNegated = text.startsWith('[^')
  const inside = text.slice(isNegated ? 2 : 1, -1)
  const source = inside.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,8})\}|(p\{\w+\})|([\s\S]))|([\s\S])/giu,
    (_, x?: string, u?: string, long?: string, braced?: string, property?: string, escaped?: string, plain = '') => {
      const hex = x ?? u ?? long ?? braced
      if (hex !== undefined) return written(Number.parseInt(hex, 16))
      if (property !== undefined) return `\\${property}`
      if (escaped === undefined) return plain === '-' ? '-' : written(plain.codePointAt(0))
      if (/[dswDSW]/.test(escaped)) return `\\${escaped}`
      return written(ESCAPES[escaped] ?? escaped.codePointAt(0))
    },
  )
  try {
    return new RegExp(`^[${isNegated ? '^' : ''}${source}]$`, 'u')
  } catch {
    throw new UnknownForm()
  }
}

function written(code: number | undefined): string {
  characterOf(code)
  return `\\u{${code?.toString(16)}}`
}

function characterOf(code: number | undefined): string {
  if (code === undefined || code > 0x10ffff) throw new UnknownForm()
  return String.fromCodePoint(code)
}
