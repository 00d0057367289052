/**
 * Formulas of `multi` graders: numbers, names of its graders, `+ - * / ^`, a leading minus, parentheses and eight
 * functions. `^` goes to the right and before a minus: `-2^2` is -4. Read by hand, never by JavaScript.
 */

type Values = ReadonlyMap<string, number>
type Node = (values: Values) => number

/** A formula, read. */
interface Formula {
  /** The names that it uses. */
  readonly names: readonly string[]
  /** May be infinite or no number. */
  readonly compute: Node
}

/** Says what was wrong, and where. */
export class FormulaError extends Error {}

const FUNCTIONS: Readonly<Record<string, (numbers: readonly number[]) => number>> = {
  min: (numbers) => numbers.reduce((a, b) => Math.min(a, b)),
  max: (numbers) => numbers.reduce((a, b) => Math.max(a, b)),
  abs: ([x]) => Math.abs(x ?? 0),
  floor: ([x]) => Math.floor(x ?? 0),
  ceil: ([x]) => Math.ceil(x ?? 0),
  exp: ([x]) => Math.exp(x ?? 0),
  sqrt: ([x]) => Math.sqrt(x ?? 0),
  log: ([x]) => Math.log(x ?? 0),
}
const OF_MANY: ReadonlySet<string> = new Set(['min', 'max'])
const TOKEN = /\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_]*)|(.))/suy
const LONGEST_FORMULA = 4096
/** Parentheses, minus signs and powers inside of each other. */
const DEEPEST = 64

interface Token {
  readonly kind: 'number' | 'name' | 'sign' | 'end'
  readonly text: string
  readonly at: number
}

function tokensOf(text: string): readonly Token[] {
  const tokens: Token[] = []
  TOKEN.lastIndex = 0
  for (let found = TOKEN.exec(text); found !== null; found = TOKEN.exec(text)) {
    const [, number, name, sign] = found
    const each = number ?? name ?? sign ?? ''
    if (each.trim() === '') break
    const kind = number !== undefined ? 'number' : name !== undefined ? 'name' : 'sign'
    tokens.push({ kind, text: each, at: TOKEN.lastIndex - each.length })
  }
  return [...tokens, { kind: 'end', text: 'the end', at: text.length }]
}

/** @throws {FormulaError} */
export function readFormula(text: string): Formula {
  if (text.length > LONGEST_FORMULA) throw new FormulaError(`a formula has at most ${LONGEST_FORMULA} characters`)
  const tokens = tokensOf(text)
  const names = new Set<string>()
  let [next, depth] = [0, 0]
  const here = (): Token => tokens[next] as Token
  const wrong = (wanted: string): FormulaError =>
    new FormulaError(`expected ${wanted} at character ${here().at + 1}, got ${here().text}`)
  const takes = (sign: string): boolean => {
    if (here().kind !== 'sign' || here().text !== sign) return false
    next += 1
    return true
  }
  const deeper = <T>(read: () => T): T => {
    depth += 1
    if (depth > DEEPEST) throw new FormulaError(`a formula is at most ${DEEPEST} parts deep`)
    const value = read()
    depth -= 1
    return value
  }
  function sum(): Node {
    let left = product()
    for (;;) {
      const before = left
      if (takes('+')) left = both(before, product(), (a, b) => a + b)
      else if (takes('-')) left = both(before, product(), (a, b) => a - b)
      else return left
    }
  }
  function product(): Node {
    let left = signed()
    for (;;) {
      const before = left
      if (takes('*')) left = both(before, signed(), (a, b) => a * b)
      else if (takes('/')) left = both(before, signed(), (a, b) => a / b)
      else return left
    }
  }
  function signed(): Node {
    if (!takes('-')) return power()
    const of = deeper(signed)
    return (values) => -of(values)
  }
  function power(): Node {
    const base = atom()
    return takes('^') ? both(base, deeper(signed), (a, b) => a ** b) : base
  }
  function atom(): Node {
    const { kind, text: word } = here()
    if (takes('(')) {
      const inner = deeper(sum)
      if (!takes(')')) throw wrong(')')
      return inner
    }
    if (kind !== 'number' && kind !== 'name') throw wrong('a number, a name or (')
    next += 1
    if (kind === 'number') {
      const value = Number(word)
      return () => value
    }
    if (takes('(')) return called(word)
    names.add(word)
    return (values) => values.get(word) ?? Number.NaN
  }
  function called(name: string): Node {
    const run = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined
    if (run === undefined) {
      throw new FormulaError(`there is no function ${name}; there are ${Object.keys(FUNCTIONS).join(', ')}`)
    }
    const inputs = [deeper(sum)]
    while (takes(',')) inputs.push(deeper(sum))
    if (!takes(')')) throw wrong(')')
    if (inputs.length > 1 && !OF_MANY.has(name))
      throw new FormulaError(`${name} takes one number, got ${inputs.length}`)
    return (values) => run(inputs.map((input) => input(values)))
  }
  const compute = sum()
  if (here().kind !== 'end') throw wrong('an operator')
  return { names: [...names], compute }
}

const both =
  (left: Node, right: Node, of: (a: number, b: number) => number): Node =>
  (values) =>
    of(left(values), right(values))
