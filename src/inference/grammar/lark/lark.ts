/**
 * Grammars in Lark's notation → EBNF that xgrammar takes.
 *
 * What a grammar says is kept: strings, ranges, regular expressions, repetitions, imports of common terminals, and `%ignore`, whose
 * terminals may stand before each terminal of a rule and at the end. What cannot be kept is refused by name and line. Terminals
 * become rules like all others: nothing is left of Lark's choice among several that match.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { checkHeap } from '../heap-limit.js'
import { PatternError } from '../schema/pattern-reader.js'
import { COMMON_TERMINALS, patternTerminal, rangeTerminal, textTerminal } from './lark-terminals.js'

const TOKEN =
  /(?<space>[ \t\f\r\n]+|\/\/[^\n]*|#[^\n]*)|(?<text>"(?:\\.|[^"\\\n])*"i?|'(?:\\.|[^'\\\n])*'i?)|(?<pattern>\/(?:\\.|[^/\\\n])+\/[a-z]*)|(?<directive>%[a-z]+)|(?<name>[A-Za-z_]\w*)|(?<number>\d+)|(?<sign>->|\.\.|[-:|()[\]{}?!*+~.,])/uy

interface Token {
  readonly kind: 'text' | 'pattern' | 'directive' | 'name' | 'number' | 'sign' | 'end'
  readonly text: string
  readonly line: number
  readonly isFirstInLine: boolean
}

/** Before each terminal of a rule, if anything is ignored. The names of the grammar's own rules begin with `r_`. */
const IGNORED = 'ignored'

/** Whether a grammar is meant as Lark: EBNF has `::=` after the name of its first rule. */
export function isLark(grammar: string): boolean {
  return !/^\s*[\w.-]+\s*::=/m.test(grammar)
}

/**
 * @returns EBNF whose `root` is the rule `start`, or the first one where there is none
 * @throws {InvalidRequestError} `invalid_grammar` naming the line
 */
export function larkToEbnf(grammar: string): string {
  return new LarkReader(readTokens(grammar)).read()
}

class LarkReader {
  readonly #tokens: readonly Token[]
  readonly #ignores: boolean
  readonly #definitions = new Map<string, string>()
  readonly #references: { readonly name: string; readonly line: number }[] = []
  readonly #ignored: string[] = []
  /** Within a terminal nothing is ignored, and no rule stands. */
  #isInTerminal = false
  #at = 0

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens
    this.#ignores = tokens.some(({ kind, text }) => kind === 'directive' && text === '%ignore')
  }

  read(): string {
    while (this.#next.kind !== 'end') {
      if (this.#next.kind === 'directive') this.#directive()
      else this.#definition()
    }
    for (const { name, line } of this.#references) {
      if (!this.#definitions.has(name)) throw refused(line, `"${name}" is defined nowhere`)
    }
    const start = this.#definitions.has('start') ? 'start' : this.#definitions.keys().next().value
    if (start === undefined) throw refused(1, 'there is no rule')
    const root = isTerminal(start) ? this.#token(`r_${start}`) : `r_${start}`
    return [
      `root ::= ${root}${this.#ignores ? ` ${IGNORED}` : ''}`,
      ...(this.#ignores ? [`${IGNORED} ::= (${this.#ignored.join(' | ')})*`] : []),
      ...Array.from(this.#definitions, ([name, rule]) => `r_${name} ::= ${rule}`),
    ].join('\n')
  }

  get #next(): Token {
    const token = this.#tokens[this.#at] ?? this.#tokens.at(-1)
    if (token === undefined) throw new Error('a grammar has an end')
    return token
  }

  #take(kind: Token['kind'], what: string): Token {
    const token = this.#next
    if (token.kind !== kind) throw refused(token.line, `expected ${what}, got ${shown(token)}`)
    this.#at++
    return token
  }

  #takes(sign: string): boolean {
    if (this.#next.kind !== 'sign' || this.#next.text !== sign) return false
    this.#at++
    return true
  }

  #expect(sign: string): void {
    if (!this.#takes(sign)) throw refused(this.#next.line, `expected "${sign}", got ${shown(this.#next)}`)
  }

  /** A line that begins so is not the rest of the one before. */
  get #isAtDefinition(): boolean {
    if (!this.#next.isFirstInLine) return false
    let at = this.#at
    while (this.#tokens[at]?.text === '?' || this.#tokens[at]?.text === '!') at++
    const after = this.#tokens[at + 1]
    return this.#tokens[at]?.kind === 'name' && after?.kind === 'sign' && [':', '.', '{'].includes(after.text)
  }

  #definition(): void {
    while (this.#takes('?') || this.#takes('!'));
    const { text: name, line } = this.#take('name', 'the name of a rule')
    if (this.#takes('.')) throw refused(line, `"${name}" has a priority, which is not supported`)
    if (this.#takes('{')) throw refused(line, `"${name}" is a template, which is not supported`)
    this.#expect(':')
    this.#isInTerminal = isTerminal(name)
    this.#define(name, this.#alternatives(), line)
  }

  #define(name: string, rule: string, line: number): void {
    if (this.#definitions.has(name)) throw refused(line, `"${name}" is defined twice`)
    this.#definitions.set(name, rule)
  }

  #directive(): void {
    const { text: directive, line } = this.#take('directive', 'a directive')
    if (directive === '%ignore') {
      this.#isInTerminal = true
      this.#ignored.push(this.#alternatives())
    } else if (directive === '%import') this.#import()
    else throw refused(line, `${directive} is not supported`)
  }

  #import(): void {
    const { line } = this.#next
    const path = this.#takes('.') ? ['', this.#importName()] : [this.#importName()]
    while (this.#takes('.')) path.push(this.#importName())
    const names: string[] = []
    if (this.#takes('(')) {
      do names.push(this.#importName())
      while (this.#takes(','))
      this.#expect(')')
    } else names.push(path.pop() ?? '')
    const alias = this.#takes('->') ? this.#importName() : null
    for (const name of names) {
      const pattern = path.join('.') === 'common' ? COMMON_TERMINALS.get(name) : undefined
      if (pattern === undefined) {
        throw refused(
          line,
          `%import ${[...path, name].join('.')} is not known, of "common" there are ${[...COMMON_TERMINALS.keys()].join(', ')}`,
        )
      }
      this.#define(alias ?? name, patternTerminal(pattern, ''), line)
    }
  }

  #importName(): string {
    return this.#take('name', 'a name to import').text
  }

  #alternatives(): string {
    const options = [this.#sequence()]
    while (this.#takes('|')) options.push(this.#sequence())
    return options.join(' | ')
  }

  #sequence(): string {
    const parts: string[] = []
    while (!this.#isAtDefinition) {
      const { kind, text } = this.#next
      if (kind === 'end' || kind === 'directive' || (kind === 'sign' && ['|', ')', ']', '->'].includes(text))) break
      parts.push(this.#repeated())
      checkHeap()
    }
    // names of a tree's nodes change no answer
    if (this.#takes('->')) this.#take('name', 'an alias')
    return parts.length === 0 ? '""' : parts.join(' ')
  }

  #repeated(): string {
    const atom = this.#atom()
    for (const sign of ['?', '*', '+']) {
      // at a line's beginning it belongs to the next rule's name
      if (!this.#isAtDefinition && this.#takes(sign)) return `(${atom})${sign}`
    }
    if (!this.#takes('~')) return atom
    const { text, line } = this.#take('number', 'a number of times')
    const least = Number(text)
    const most = this.#takes('..') ? Number(this.#take('number', 'a number of times').text) : least
    if (most < least) throw refused(line, `~ ${least}..${most} ends before it begins`)
    return most === 0 ? '""' : `(${atom}){${least},${most}}`
  }

  #atom(): string {
    const { kind, text, line } = this.#next
    this.#at++
    if (kind === 'sign' && text === '(') return this.#group(')', '')
    if (kind === 'sign' && text === '[') return this.#group(']', '?')
    if (kind === 'pattern') {
      const end = text.lastIndexOf('/')
      return this.#token(located(line, text, () => patternTerminal(text.slice(1, end), text.slice(end + 1))))
    }
    if (kind === 'text') {
      if (!this.#takes('..')) return this.#token(located(line, text, () => textTerminal(text)))
      const last = this.#take('text', 'the last of a range').text
      return this.#token(located(line, `${text}..${last}`, () => rangeTerminal(text, last)))
    }
    if (kind !== 'name') throw refused(line, `expected a rule, a terminal or a text, got ${shown({ kind, text })}`)
    if (this.#takes('{')) throw refused(line, `"${text}" is a template, which is not supported`)
    this.#references.push({ name: text, line })
    if (isTerminal(text)) return this.#token(`r_${text}`)
    if (this.#isInTerminal) throw refused(line, `"${text}" is a rule and cannot be part of a terminal`)
    return `r_${text}`
  }

  #group(end: string, quantifier: string): string {
    const inside = this.#alternatives()
    this.#expect(end)
    return `(${inside})${quantifier}`
  }

  /** A terminal as it stands where it is used. */
  #token(rule: string): string {
    return this.#ignores && !this.#isInTerminal ? `(${IGNORED} (${rule}))` : `(${rule})`
  }
}

function readTokens(grammar: string): readonly Token[] {
  const tokens: Token[] = []
  let line = 1
  let isFirstInLine = true
  TOKEN.lastIndex = 0
  for (let at = 0; at < grammar.length; at = TOKEN.lastIndex) {
    const found = TOKEN.exec(grammar)
    if (found?.groups === undefined)
      throw refused(line, `cannot be read from ${JSON.stringify(grammar.slice(at, at + 20))}`)
    const [text] = found
    const kind = Object.entries(found.groups).find(([, group]) => group !== undefined)?.[0]
    if (kind === 'space') {
      const breaks = text.split('\n').length - 1
      line += breaks
      isFirstInLine ||= breaks > 0
      continue
    }
    checkHeap()
    tokens.push({ kind: kind as Token['kind'], text, line, isFirstInLine })
    isFirstInLine = false
  }
  return [...tokens, { kind: 'end', text: '', line, isFirstInLine: true }]
}

const isTerminal = (name: string): boolean => /^_*[A-Z]/.test(name)

function shown({ kind, text }: Pick<Token, 'kind' | 'text'>): string {
  return kind === 'end' ? 'the end' : JSON.stringify(text.slice(0, 40))
}

/** A terminal, or why it cannot be kept. */
function located(line: number, text: string, read: () => string): string {
  try {
    return read()
  } catch (error) {
    if (error instanceof PatternError) throw refused(line, `${text.slice(0, 100)} ${error.message}`)
    throw error
  }
}

function refused(line: number, reason: string): InvalidRequestError {
  return new InvalidRequestError(
    'invalid_grammar',
    `Failed to convert the grammar from Lark to EBNF: line ${line}: ${reason}`,
    { hint: 'for EBNF write rules like root ::= "yes" | "no"' },
  )
}
