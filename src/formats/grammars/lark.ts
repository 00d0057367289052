/**
 * Reads grammars in Lark's notation: strings, ranges, regular expressions, repetitions, imports of common terminals, and
 * `%ignore`, whose terminals may stand before each terminal of a rule and at the end. What cannot be kept is refused by name
 * and line. Terminals become rules like all others: nothing is left of Lark's choice among several that match.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { choiceOf, type Expression, type Grammar, NOTHING, type Source, sequenceOf } from './expression.js'

const TOKEN =
  /(?<space>[ \t\f\r\n]+|\/\/[^\n]*|#[^\n]*)|(?<text>"(?:\\.|[^"\\\n])*"i?|'(?:\\.|[^'\\\n])*'i?)|(?<pattern>\/(?:\\.|[^/\\\n])+\/[a-z]*)|(?<directive>%[a-z]+)|(?<name>[A-Za-z_]\w*)|(?<number>\d+)|(?<sign>->|\.\.|[-:|()[\]{}?!*+~.,])/uy

interface Token {
  readonly kind: 'text' | 'pattern' | 'directive' | 'name' | 'number' | 'sign' | 'end'
  readonly text: string
  readonly line: number
  readonly isFirstInLine: boolean
}

/** The rule that stands before each terminal of a rule, if anything is ignored; a grammar's own names have no such sign. */
export const IGNORED = '%ignore'
/** The whole answer. */
const ROOT = '%root'

/** Whether a grammar is meant as Lark: EBNF has `::=` after the name of its first rule. */
export function isLark(grammar: string): boolean {
  return !/^\s*[\w.-]+\s*::=/m.test(grammar)
}

/**
 * @param onPart called for each token and each part of a rule, and may throw
 * @returns a grammar of the rule `start`, or of the first one where there is none
 * @throws {InvalidRequestError} `invalid_grammar` naming the line
 */
export function readLark(grammar: string, onPart: () => void = () => undefined): Grammar {
  return new LarkReader(readTokens(grammar, onPart), onPart).read()
}

const EXPONENT = '[eE][+-]?[0-9]+'
const DECIMAL = String.raw`(?:[0-9]+\.[0-9]*|\.[0-9]+)`
const NUMBER = `(?:${DECIMAL}|[0-9]+)(?:${EXPONENT})?`
const FLOAT = `(?:[0-9]+${EXPONENT}|${DECIMAL}(?:${EXPONENT})?)`
/** Of `%import common`, by name, as regular expressions of our own. */
const COMMON_TERMINALS: ReadonlyMap<string, string> = new Map([
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

class LarkReader {
  readonly #tokens: readonly Token[]
  readonly #ignores: boolean
  readonly #onPart: () => void
  readonly #definitions = new Map<string, Expression>()
  readonly #references: { readonly name: string; readonly line: number }[] = []
  readonly #ignored: Expression[] = []
  /** Within a terminal nothing is ignored, and no rule stands. */
  #isInTerminal = false
  #at = 0

  constructor(tokens: readonly Token[], onPart: () => void) {
    this.#tokens = tokens
    this.#onPart = onPart
    this.#ignores = tokens.some(({ kind, text }) => kind === 'directive' && text === '%ignore')
  }

  read(): Grammar {
    while (this.#next.kind !== 'end') {
      if (this.#next.kind === 'directive') this.#directive()
      else this.#definition()
    }
    for (const { name, line } of this.#references) {
      if (!this.#definitions.has(name)) throw refused(line, `"${name}" is defined nowhere`)
    }
    const start = this.#definitions.has('start') ? 'start' : this.#definitions.keys().next().value
    if (start === undefined) throw refused(1, 'there is no rule')
    const root: Expression = { kind: 'rule', name: start }
    if (!this.#ignores) return { root: start, rules: this.#definitions }
    const ignored: Expression = { kind: 'rule', name: IGNORED }
    const whole = isTerminal(start) ? [ignored, root, ignored] : [root, ignored]
    const any: Expression = { kind: 'repeat', part: choiceOf(this.#ignored), least: 0, most: Number.POSITIVE_INFINITY }
    return { root: ROOT, rules: new Map([[ROOT, sequenceOf(whole)], [IGNORED, any], ...this.#definitions]) }
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

  #define(name: string, rule: Expression, line: number): void {
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
      this.#define(alias ?? name, { kind: 'pattern', pattern, flags: '', source: { text: name, line } }, line)
    }
  }

  #importName(): string {
    return this.#take('name', 'a name to import').text
  }

  #alternatives(): Expression {
    const options = [this.#sequence()]
    while (this.#takes('|')) options.push(this.#sequence())
    return choiceOf(options)
  }

  #sequence(): Expression {
    const parts: Expression[] = []
    while (!this.#isAtDefinition) {
      const { kind, text } = this.#next
      if (kind === 'end' || kind === 'directive' || (kind === 'sign' && ['|', ')', ']', '->'].includes(text))) break
      parts.push(this.#repeated())
      this.#onPart()
    }
    // names of a tree's nodes change no answer
    if (this.#takes('->')) this.#take('name', 'an alias')
    return sequenceOf(parts)
  }

  #repeated(): Expression {
    const part = this.#atom()
    for (const [sign, least, most] of REPETITIONS) {
      // at a line's beginning it belongs to the next rule's name
      if (!this.#isAtDefinition && this.#takes(sign)) return { kind: 'repeat', part, least, most }
    }
    if (!this.#takes('~')) return part
    const { text, line } = this.#take('number', 'a number of times')
    const least = Number(text)
    const most = this.#takes('..') ? Number(this.#take('number', 'a number of times').text) : least
    if (most < least) throw refused(line, `~ ${least}..${most} ends before it begins`)
    return most === 0 ? NOTHING : { kind: 'repeat', part, least, most }
  }

  #atom(): Expression {
    const { kind, text, line } = this.#next
    this.#at++
    if (kind === 'sign' && text === '(') return this.#group(')')
    if (kind === 'sign' && text === '[') return { kind: 'repeat', part: this.#group(']'), least: 0, most: 1 }
    if (kind === 'pattern') {
      const end = text.lastIndexOf('/')
      const [pattern, flags] = [text.slice(1, end), text.slice(end + 1)]
      return this.#terminal({ kind: 'pattern', pattern, flags, source: { text, line } })
    }
    if (kind === 'text') {
      if (!this.#takes('..')) return this.#terminal(textOf({ text, line }))
      const last = this.#take('text', 'the last of a range').text
      const source: Source = { text: `${text}..${last}`, line }
      const [from, to] = [textOf({ text, line }).text, textOf({ text: last, line }).text]
      return this.#terminal({ kind: 'range', first: from, last: to, source })
    }
    if (kind !== 'name') throw refused(line, `expected a rule, a terminal or a text, got ${shown({ kind, text })}`)
    if (this.#takes('{')) throw refused(line, `"${text}" is a template, which is not supported`)
    this.#references.push({ name: text, line })
    const rule: Expression = { kind: 'rule', name: text }
    if (isTerminal(text)) return this.#terminal(rule)
    if (this.#isInTerminal) throw refused(line, `"${text}" is a rule and cannot be part of a terminal`)
    return rule
  }

  #group(end: string): Expression {
    const inside = this.#alternatives()
    this.#expect(end)
    return inside
  }

  /** A terminal as it stands where it is used. */
  #terminal(terminal: Expression): Expression {
    if (!this.#ignores || this.#isInTerminal) return terminal
    return { kind: 'sequence', parts: [{ kind: 'rule', name: IGNORED }, terminal] }
  }
}

const REPETITIONS = [
  ['?', 0, 1],
  ['*', 0, Number.POSITIVE_INFINITY],
  ['+', 1, Number.POSITIVE_INFINITY],
] as const

/** The value of a quoted text. Only what Lark knows is an escape, any other backslash stays. */
function textOf(source: Source): Expression & { readonly kind: 'text' } {
  const ignoresCase = source.text.endsWith('i')
  const inside = source.text.slice(1, ignoresCase ? -2 : -1)
  const text = inside.replace(
    /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gu,
    (_, x?: string, u?: string, long?: string, other = '') => {
      const hex = x ?? u ?? long
      if (hex === undefined)
        return { n: '\n', t: '\t', r: '\r', f: '\f', '"': '"', "'": "'", '\\': '\\' }[String(other)] ?? `\\${other}`
      const code = Number.parseInt(hex, 16)
      if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        throw refused(source.line, `${source.text.slice(0, 100)} names no character`)
      }
      return String.fromCodePoint(code)
    },
  )
  return { kind: 'text', text, ignoresCase, source }
}

function readTokens(grammar: string, onPart: () => void): readonly Token[] {
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
    onPart()
    tokens.push({ kind: kind as Token['kind'], text, line, isFirstInLine })
    isFirstInLine = false
  }
  return [...tokens, { kind: 'end', text: '', line, isFirstInLine: true }]
}

const isTerminal = (name: string): boolean => /^_*[A-Z]/.test(name)

function shown({ kind, text }: Pick<Token, 'kind' | 'text'>): string {
  return kind === 'end' ? 'the end' : JSON.stringify(text.slice(0, 40))
}

/** What cannot be kept of a grammar. */
export function refused(line: number, reason: string): InvalidRequestError {
  return new InvalidRequestError(
    'invalid_grammar',
    `Failed to convert the grammar from Lark to EBNF: line ${line}: ${reason}`,
    { hint: 'for EBNF write rules like root ::= "yes" | "no"' },
  )
}
