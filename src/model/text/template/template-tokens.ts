/**
 * What the lexer of @huggingface/jinja gets wrong, put right in its tokens:
 *
 * - number literals with an exponent, underscores or another base (`1e-7`, `1_000`, `0x1F`) are no numbers to it
 * - tests with an argument (`is divisibleby(3)`, `is in [1, 2]`) cannot be parsed: they become filters of the name `is divisibleby`
 * - tuples of none and of one value (`()`, `(1,)`) cannot be parsed: they become lists with a filter `as tuple`
 * - `a < b < c` is parsed as `(a < b) < c`: which brackets an operator stands in tells the two apart
 */
import { append } from '#base/util/lists.js'

interface Token {
  readonly type: string
  value: string
}

type MakeToken<T> = (value: string, type: string) => T

/** All of it. */
export function repairTokens<T extends Token>(tokens: readonly T[]): T[] {
  const first = tokens[0]
  if (first === undefined) return []
  const make: MakeToken<T> = (value, type) =>
    Object.assign(Object.create(Object.getPrototypeOf(first)), { value, type })
  const repaired = withTestArguments(withShortTuples(withNumberLiterals(tokens), make), make)
  noteBrackets(repaired)
  return repaired
}

const opening: ReadonlySet<string> = new Set(['OpenParen', 'OpenSquareBracket', 'OpenCurlyBracket'])
const closing: ReadonlySet<string> = new Set(['CloseParen', 'CloseSquareBracket', 'CloseCurlyBracket'])

/** The brackets around each operator of a comparison. */
const brackets = new WeakMap<object, object>()

function noteBrackets(tokens: readonly Token[]): void {
  const open: object[] = [{}]
  for (const token of tokens) {
    if (opening.has(token.type)) open.push(token)
    else if (closing.has(token.type)) open.pop()
    else brackets.set(token, open.at(-1) ?? token)
  }
}

/** Whether two operators, one in an operand of the other, are written without brackets between them. */
export function isChained(operator: unknown, inner: unknown): boolean {
  if (typeof operator !== 'object' || operator === null || typeof inner !== 'object' || inner === null) return false
  const around = brackets.get(operator)
  return around !== undefined && around === brackets.get(inner)
}

const keywords: ReadonlySet<string> = new Set(['in', 'if', 'elif', 'else', 'and', 'or', 'not', 'is', 'set', 'for'])

/** Brackets behind a value are a call, others hold a value. */
function isCallAt(tokens: readonly Token[], at: number): boolean {
  const before = tokens[at - 1]
  if (before?.type === 'Identifier') return !keywords.has(before.value)
  return before?.type === 'CloseParen' || before?.type === 'CloseSquareBracket'
}

function withShortTuples<T extends Token>(tokens: readonly T[], make: MakeToken<T>): T[] {
  const changed: T[] = []
  const open: { readonly from: number; readonly isCall: boolean }[] = []
  for (const [i, token] of tokens.entries()) {
    if (token.type === 'OpenParen') open.push({ from: changed.length, isCall: isCallAt(tokens, i) })
    const group = token.type === 'CloseParen' ? open.pop() : undefined
    const last = changed.at(-1)?.type
    if (group !== undefined && !group.isCall && (last === 'OpenParen' || last === 'Comma')) {
      const items = changed.splice(group.from + 1)
      append(changed, [make('[', 'OpenSquareBracket'), ...items, make(']', 'CloseSquareBracket')])
      changed.push(make('|', 'Pipe'), make('as tuple', 'Identifier'))
    }
    changed.push(token)
  }
  return changed
}

const noArgument: ReadonlySet<string> = new Set(['else', 'or', 'and', 'if', 'is', 'in', 'not', 'recursive'])
const startsArgument: ReadonlySet<string> = new Set([
  'StringLiteral',
  'NumericLiteral',
  'OpenSquareBracket',
  'OpenCurlyBracket',
])

function withTestArguments<T extends Token>(tokens: readonly T[], make: MakeToken<T>): T[] {
  const changed: T[] = []
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] as T
    const isNegated = tokens[i + 1]?.value === 'not' && tokens[i + 1]?.type === 'Identifier'
    const at = i + (isNegated ? 2 : 1)
    const name = tokens[at]
    const next = tokens[at + 1]
    const isTest =
      token.type === 'Identifier' &&
      token.value === 'is' &&
      tokens[i - 1]?.type !== 'Dot' &&
      name?.type === 'Identifier'
    const hasArgument =
      next !== undefined &&
      (next.type === 'OpenParen' ||
        startsArgument.has(next.type) ||
        (next.type === 'Identifier' && !noArgument.has(next.value)))
    if (!isTest || !hasArgument) {
      changed.push(token)
      continue
    }
    const end = endOfPrimary(tokens, at + 1)
    const argument = withTestArguments(tokens.slice(at + 1, end), make)
    const isCall = next.type === 'OpenParen'
    changed.push(make('|', 'Pipe'), make(`is ${isNegated ? 'not ' : ''}${name.value}`, 'Identifier'))
    append(changed, isCall ? argument : [make('(', 'OpenParen'), ...argument, make(')', 'CloseParen')])
    i = end - 1
  }
  return changed
}

/** Behind a literal, a name or brackets, and the members and calls that follow; an argument in brackets ends with them. */
function endOfPrimary(tokens: readonly Token[], start: number): number {
  const isBracketed = tokens[start]?.type === 'OpenParen'
  let at = opening.has(tokens[start]?.type ?? '') ? behindBrackets(tokens, start) : start + 1
  while (!isBracketed) {
    const type = tokens[at]?.type ?? ''
    if (type === 'Dot') at += 2
    else if (type === 'OpenParen' || type === 'OpenSquareBracket') at = behindBrackets(tokens, at)
    else break
  }
  return at
}

function behindBrackets(tokens: readonly Token[], start: number): number {
  let depth = 0
  for (let at = start; at < tokens.length; at++) {
    const type = tokens[at]?.type ?? ''
    if (opening.has(type)) depth++
    else if (closing.has(type) && --depth === 0) return at + 1
  }
  return tokens.length
}

/**
 * Puts number literals together that the lexer takes apart: `1e-7` comes as `1`, `e`, `-`, `7`. No valid template has a name
 * right behind a number that looks like the rest of one.
 */
function withNumberLiterals<T extends Token>(tokens: readonly T[]): T[] {
  const joinedTokens: T[] = []
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i] as T
    joinedTokens.push(token)
    const next = tokens[i + 1]
    if (token.type !== 'NumericLiteral' || next?.type !== 'Identifier') continue
    const number = token.value
    if (/^[eE]\d[\d_]*$/.test(next.value)) {
      token.value = withExponent(number, next.value.slice(1))
      i += 1
    } else if (/^[eE]$/.test(next.value)) {
      const [sign, digits] = [tokens[i + 2], tokens[i + 3]]
      if (sign?.type !== 'AdditiveBinaryOperator' || digits?.type !== 'NumericLiteral') continue
      token.value = withExponent(number, sign.value + digits.value)
      i += 3
    } else if (/^(_\d+)+$/.test(next.value)) {
      token.value = number + next.value.replaceAll('_', '')
      i += 1
    } else if (/^[+-]?0$/.test(number) && /^([xX][\da-fA-F_]+|[oO][0-7_]+|[bB][01_]+)$/.test(next.value)) {
      token.value = String(Number(`0${next.value.replaceAll('_', '')}`) * (number.startsWith('-') ? -1 : 1))
      i += 1
    }
  }
  return joinedTokens
}

/** With a point, by which the parser tells floats. */
function withExponent(number: string, exponent: string): string {
  return `${number.includes('.') ? number : `${number}.0`}e${exponent.replaceAll('_', '')}`
}
