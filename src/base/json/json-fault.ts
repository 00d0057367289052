/**
 * Where a text stops being JSON and why, for people: `JSON.parse` gives a position for some faults only, and none for `NaN`.
 *
 * Read once more from its beginning, after `JSON.parse` refused it. Knows nothing of files.
 */

/** A fault and its place; line and column count from 1, the column in UTF-16 units. */
export interface JsonFault {
  readonly line: number
  readonly column: number
  readonly problem: string
}

/** `line 2, column 7: a comma stands before }`, without the line where the text is one; null for valid JSON. */
export function describeJsonFault(text: string): string | null {
  const fault = findJsonFault(text)
  if (fault === null) return null
  const line = text.includes('\n') ? `line ${fault.line}, ` : ''
  return `${line}column ${fault.column}: ${fault.problem}`
}

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | ', or end'

/** Spellings of other languages, with what JSON has instead. */
const FOREIGN_WORDS: ReadonlyMap<string, string> = new Map([
  ...['NaN', 'nan', 'Infinity', 'inf'].map((word) => [word, 'is no number of JSON'] as const),
  ['None', 'is null in JSON'],
  ['True', 'is true in JSON'],
  ['False', 'is false in JSON'],
  ['undefined', 'is no value of JSON'],
])
const WORD = /[A-Za-z_]\w*/y
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y
const BLANK = /[ \t\r\n]*/y

/** The first fault; null for valid JSON. */
export function findJsonFault(text: string): JsonFault | null {
  const open: ('{' | '[')[] = []
  let expected: Expected = 'value'
  let at = 0
  for (;;) {
    at += lengthOf(BLANK, text, at)
    const char = text[at]
    if (char === undefined) {
      if (expected === ', or end' && open.length === 0) return null
      return faultAt(text, at, `the text ends ${endOf(open)}`)
    }
    const step = stepAt(text, at, expected, open)
    if (typeof step !== 'number') return faultAt(text, step.at, step.problem)
    expected = after(char, expected, open)
    at += step
  }
}

interface Problem {
  readonly at: number
  readonly problem: string
}

/** Length of the token at a place where something is expected, or what is wrong. */
function stepAt(text: string, at: number, expected: Expected, open: readonly string[]): number | Problem {
  const char = text[at] ?? ''
  const refuse = (problem: string): Problem => ({ at, problem })
  const isValue = expected === 'value' || expected === 'value or ]'
  if (char === '"' && expected !== ':' && expected !== ', or end') return endOfText(text, at)
  if ('}]'.includes(char)) {
    const isOwn = open.at(-1) === (char === '}' ? '{' : '[')
    const isPlace = expected === ', or end' || expected === (char === '}' ? 'key or }' : 'value or ]')
    if (isOwn && isPlace) return 1
    if (isOwn && (expected === 'key' || isValue) && text.slice(0, at).trimEnd().endsWith(',')) {
      return { at: text.lastIndexOf(',', at), problem: `a comma stands before ${char}` }
    }
    return refuse(`${char} is not expected`)
  }
  if (char === ':' && expected === ':') return 1
  if (char === ',' && expected === ', or end' && open.length > 0) return 1
  if (isValue && (char === '{' || char === '[')) return 1
  if (isValue && /[-\d]/.test(char)) {
    const length = lengthOf(NUMBER, text, at)
    if (length > 0) return length
    const word = wordAt(text, at + 1)
    return refuse(FOREIGN_WORDS.has(word) ? `-${word} ${FOREIGN_WORDS.get(word)}` : 'a number is malformed')
  }
  const word = wordAt(text, at)
  if (isValue && ['true', 'false', 'null'].includes(word)) return word.length
  if (word !== '' && FOREIGN_WORDS.has(word)) return refuse(`${word} ${FOREIGN_WORDS.get(word)}`)
  if (char === '\uFEFF') return refuse('a byte order mark stands inside the text')
  if (char === "'") return refuse("a text in single quotes ('), JSON has double ones")
  if (text.startsWith('//', at) || text.startsWith('/*', at) || char === '#') {
    return refuse('a comment, which JSON has not')
  }
  const wanted = expected === ', or end' ? (open.length === 0 ? 'the end' : `a comma or ${closing(open)}`) : expected
  return refuse(`${JSON.stringify(word === '' ? char : word.slice(0, 20))} where ${wanted} is expected`)
}

/** What is expected behind a token that was right; keeps what is open. */
function after(char: string, expected: Expected, open: ('{' | '[')[]): Expected {
  if (char === '{' || char === '[') {
    open.push(char)
    return char === '{' ? 'key or }' : 'value or ]'
  }
  if (char === ':') return 'value'
  if (char === ',') return open.at(-1) === '{' ? 'key' : 'value'
  if (char === '}' || char === ']') open.pop()
  else if (expected === 'key' || expected === 'key or }') return ':'
  return ', or end'
}

function endOfText(text: string, start: number): number | Problem {
  for (let i = start + 1; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) return i + 1 - start
    if (code < 0x20) return { at: i, problem: `a text holds ${code === 0x0a ? 'a line break' : 'a control character'}` }
    if (code !== 0x5c) continue
    const escaped = /^(?:["\\/bfnrt]|u[\da-fA-F]{4})/.exec(text.slice(i + 1, i + 6))
    if (escaped === null) return { at: i, problem: 'a text holds a backslash that escapes nothing' }
    i += escaped[0].length
  }
  return { at: start, problem: 'a text begins that does not end' }
}

function endOf(open: readonly string[]): string {
  if (open.length === 0) return 'where a value is expected'
  return open.at(-1) === '{' ? 'inside an object' : 'inside a list'
}

function closing(open: readonly string[]): string {
  return open.at(-1) === '{' ? '}' : ']'
}

function wordAt(text: string, at: number): string {
  return text.slice(at, at + lengthOf(WORD, text, at))
}

function lengthOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex - at : 0
}

function faultAt(text: string, at: number, problem: string): JsonFault {
  const before = text.slice(0, at)
  const start = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - start + 1, problem }
}
