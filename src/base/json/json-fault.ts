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
  /** The text ends too early and is right as far as it goes: it may be cut off. */
  readonly isCut: boolean
}

/** `line 2, column 7: a comma stands before }`, without the line where the text is one; null for valid JSON. */
export function describeJsonFault(text: string): string | null {
  const fault = findJsonFault(text)
  return fault === null ? null : describeFault(fault, text)
}

/** The same of a fault that was found in a text. */
export function describeFault({ line, column, problem }: JsonFault, text: string): string {
  return `${text.includes('\n') ? `line ${line}, ` : ''}column ${column}: ${problem}`
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
/** What a number may begin with, up to the end of the text. */
const NUMBER_START = /-?(?:(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d*)?)?$/y
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
      return faultAt(text, { at, problem: `the text ends ${endOf(open)}`, isCut: true })
    }
    const step = stepAt(text, at, expected, open)
    if (typeof step !== 'number') return faultAt(text, step)
    expected = after(char, expected, open)
    at += step
  }
}

interface Problem {
  readonly at: number
  readonly problem: string
  readonly isCut?: boolean
}

/** Length of the token at a place where something is expected, or what is wrong. */
function stepAt(text: string, at: number, expected: Expected, open: readonly string[]): number | Problem {
  const char = text[at] ?? ''
  const refuse = (problem: string, isCut = false): Problem => ({ at, problem, isCut })
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
    if (FOREIGN_WORDS.has(word)) return refuse(`-${word} ${FOREIGN_WORDS.get(word)}`)
    return refuse('a number is malformed', lengthOf(NUMBER_START, text, at) > 0)
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
  const isWordStart = isValue && word !== '' && at + word.length === text.length
  const isCut = isWordStart && ['true', 'false', 'null'].some((whole) => whole.startsWith(word))
  return refuse(`${JSON.stringify(word === '' ? char : word.slice(0, 20))} where ${wanted} is expected`, isCut)
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
    if (escaped === null) {
      const isCut = /^(?:u[\da-fA-F]{0,3})?$/.test(text.slice(i + 1, i + 6))
      return { at: i, problem: 'a text holds a backslash that escapes nothing', isCut }
    }
    i += escaped[0].length
  }
  return { at: start, problem: 'a text begins that does not end', isCut: true }
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

function faultAt(text: string, { at, problem, isCut = false }: Problem): JsonFault {
  const before = text.slice(0, at)
  const start = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - start + 1, problem, isCut }
}
