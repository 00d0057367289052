/**
 * Arithmetic on symbolic sizes. A size is a number or canonical text of a polynomial with integer coefficients: `B`, `2*S`, `C+S`, `B*T-1`.
 *
 * Canonical text: symbols of a product sorted, terms sorted, the constant last, factor 1 left out. So two sizes are equal
 * exactly if their texts are. A symbol is never taken to be 1: broadcasting needs a literal 1.
 */
import { GraphError } from '#base/errors/errors.js'
import type { Dim, Shape } from './graph.js'

/** From a product of symbols, sorted and joined by `*` (empty for the constant), to its coefficient, never 0. */
type Polynomial = ReadonlyMap<string, number>

/**
 * The canonical form of a size.
 *
 * @throws {GraphError} `bad_dimension` for a negative number or text that is not a sum of products
 */
export function canonicalDim(dim: Dim): Dim {
  if (typeof dim === 'number') {
    if (!Number.isSafeInteger(dim) || dim < 0) throw badDimension(dim)
    return dim
  }
  return format(parse(dim))
}

/** Every size in canonical form; see `canonicalDim`. */
export function canonicalShape(shape: Shape): Shape {
  return Object.freeze(shape.map(canonicalDim))
}

/** a + b. */
export function addDims(a: Dim, b: Dim): Dim {
  if (typeof a === 'number' && typeof b === 'number') return a + b
  return format(sum(parse(a), parse(b), 1))
}

/** a − b; the result may be negative or contain negative terms. */
export function subtractDims(a: Dim, b: Dim): Dim {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return format(sum(parse(a), parse(b), -1))
}

/** a · b. */
export function multiplyDims(a: Dim, b: Dim): Dim {
  if (typeof a === 'number' && typeof b === 'number') return a * b
  return format(product(parse(a), parse(b)))
}

/** a / b if the division is exact for all values of the symbols, else null. */
export function divideDims(a: Dim, b: Dim): Dim | null {
  if (typeof a === 'number' && typeof b === 'number') return b !== 0 && a % b === 0 ? a / b : null
  if (a === b) return 1
  const divisor = parse(b)
  const lead = leading(divisor)
  if (lead === null) return null
  let rest = parse(a)
  let quotient: Polynomial = new Map()
  for (let top = leading(rest); top !== null; top = leading(rest)) {
    const key = divideMonomial(top[0], lead[0])
    if (key === null || top[1] % lead[1] !== 0) return null
    const term: Polynomial = new Map([[key, top[1] / lead[1]]])
    quotient = sum(quotient, term, 1)
    rest = sum(rest, product(term, divisor), -1)
  }
  return format(quotient)
}

/** Number of elements of a shape; 1 for a scalar. */
export function elementCountDim(shape: Shape): Dim {
  return shape.reduce(multiplyDims, 1)
}

/** Whether two shapes are the same for all values of their symbols. Both must be canonical. */
export function isSameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((dim, axis) => dim === b[axis])
}

/** The terms of a size, as factors and symbols: `2*B*S+1` → [{2, [B, S]}, {1, []}]. For code that computes a size at run time. */
export function dimTerms(dim: Dim): readonly { readonly coefficient: number; readonly symbols: readonly string[] }[] {
  return [...parse(dim)].map(([key, coefficient]) => ({ coefficient, symbols: symbolsOf(key) }))
}

/** Shape as text for messages and dumps: `[B, 2*S, 64]`. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(', ')}]`
}

function parse(dim: Dim): Polynomial {
  const terms = new Map<string, number>()
  if (typeof dim === 'number') return dim === 0 ? terms : terms.set('', dim)
  if (!/^[+-]?[\w*.]+([+-][\w*.]+)*$/.test(dim)) throw badDimension(dim)
  for (const [term] of dim.matchAll(/[+-]?[^+-]+/g)) {
    let coefficient = term.startsWith('-') ? -1 : 1
    const symbols: string[] = []
    for (const factor of term.replace(/^[+-]/, '').split('*')) {
      if (/^\d+$/.test(factor)) coefficient *= Number(factor)
      else if (/^[A-Za-z_][\w.]*$/.test(factor)) symbols.push(factor)
      else throw badDimension(dim)
    }
    accumulate(terms, symbols.sort().join('*'), coefficient)
  }
  return terms
}

function format(terms: Polynomial): Dim {
  if (terms.size === 0) return 0
  if (terms.size === 1 && terms.has('')) return terms.get('') as number
  let text = ''
  for (const [key, coefficient] of [...terms].sort(byKeyConstantLast)) {
    const size = Math.abs(coefficient)
    const body = key === '' ? String(size) : size === 1 ? key : `${size}*${key}`
    text += coefficient < 0 ? `-${body}` : text === '' ? body : `+${body}`
  }
  return text
}

function byKeyConstantLast([a]: readonly [string, number], [b]: readonly [string, number]): number {
  if (a === '' || b === '') return a === b ? 0 : a === '' ? 1 : -1
  return a < b ? -1 : 1
}

function sum(a: Polynomial, b: Polynomial, sign: 1 | -1): Polynomial {
  const terms = new Map(a)
  for (const [key, coefficient] of b) accumulate(terms, key, sign * coefficient)
  return terms
}

function product(a: Polynomial, b: Polynomial): Polynomial {
  const terms = new Map<string, number>()
  for (const [keyA, coefficientA] of a) {
    for (const [keyB, coefficientB] of b) {
      const key = [...symbolsOf(keyA), ...symbolsOf(keyB)].sort().join('*')
      accumulate(terms, key, coefficientA * coefficientB)
    }
  }
  return terms
}

function accumulate(terms: Map<string, number>, key: string, coefficient: number): void {
  const total = (terms.get(key) ?? 0) + coefficient
  if (total === 0) terms.delete(key)
  else terms.set(key, total)
}

/** The greatest term in lexicographic monomial order, which makes long division terminate. */
function leading(terms: Polynomial): readonly [string, number] | null {
  let best: readonly [string, number] | null = null
  for (const entry of terms) if (best === null || compareMonomials(entry[0], best[0]) > 0) best = entry
  return best
}

/** Compares exponents symbol by symbol in alphabetic order; the greater exponent of the first difference wins. */
function compareMonomials(a: string, b: string): number {
  const symbolsA = symbolsOf(a)
  const symbolsB = symbolsOf(b)
  for (const symbol of [...new Set([...symbolsA, ...symbolsB])].sort()) {
    const difference = count(symbolsA, symbol) - count(symbolsB, symbol)
    if (difference !== 0) return difference
  }
  return 0
}

function divideMonomial(a: string, b: string): string | null {
  const symbols = symbolsOf(a)
  for (const symbol of symbolsOf(b)) {
    const at = symbols.indexOf(symbol)
    if (at < 0) return null
    symbols.splice(at, 1)
  }
  return symbols.join('*')
}

function symbolsOf(key: string): string[] {
  return key === '' ? [] : key.split('*')
}

function count(symbols: readonly string[], symbol: string): number {
  return symbols.filter((other) => other === symbol).length
}

function badDimension(dim: Dim): GraphError {
  return new GraphError('bad_dimension', `dimension must be a size or a sum of products such as "C+2*S", got "${dim}"`)
}
