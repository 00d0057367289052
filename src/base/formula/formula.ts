/**
 * Formulas as data: what a short function over numbers per token, pair or trajectory computes, as a list of operators. A
 * function is called once, with operators that only note what they are asked for; what it noted can be sent, checked, and
 * computed by whoever gets it: no code of the function's author runs there.
 *
 * Knows no loss. Values and derivatives in float64: `evaluate.ts`; as a graph: `numerics/nn/formula.ts`.
 */
import { isJsonObject, type JsonValue } from '../util/json.js'
import { OPERATORS, type OperatorName, REDUCTIONS } from './operators.js'

/**
 * An operator with the positions of its operands, all before its own; an input with its name; a number; a clip with its
 * bounds.
 */
type FormulaNode = readonly [string, ...(number | string)[]]

/** The last node is the result. */
export type Formula = { readonly nodes: readonly FormulaNode[] }

/** A value inside a formula, opaque to who writes one. */
export interface Term {
  readonly at: number
}
type Operand = Term | number

/** Operators of formulas; numbers may stand wherever values may. */
export interface FormulaMath
  extends Readonly<Record<Exclude<OperatorName, 'where'>, (a: Operand, b?: Operand) => Term>> {
  /** `a` where the condition is not 0, else `b`. */
  where(condition: Operand, a: Operand, b: Operand): Term
  /** At least `low`, at most `high`; outside no gradient flows. */
  clip(x: Operand, low: number, high: number): Term
  /** log(1 / (1 + exp(-x))), without overflow. */
  logSigmoid(x: Operand): Term
  /** The value without its gradient. */
  stop(x: Operand): Term
  /** Of losses over tokens: the mean over the tokens of each token's own sequence. */
  sequenceMean(x: Operand): Term
  /** Of losses over pairs: the values of all pairs of the optimizer step, the least first, whichever pairs they are of. */
  batchSort(x: Operand): Term
  /** Of advantages: mean and population deviation of the trajectory's group, or of all trajectories. */
  groupMean(x: Operand): Term
  groupDeviation(x: Operand): Term
  batchMean(x: Operand): Term
  batchDeviation(x: Operand): Term
}

/** Most operators, inputs and numbers of a formula. */
export const MAX_NODES = 256

/** What is wrong with a formula, as the end of a sentence about it. */
export class FormulaError extends Error {}

/**
 * Calls a function once with named inputs and notes what it computes.
 *
 * @throws {FormulaError} where it does not return a value of its formula, or is too long; what the function throws
 * @example traceFormula(['logp', 'advantage'], ({ logp, advantage }, { mul, neg }) => neg(mul(logp, advantage)))
 */
export function traceFormula<Name extends string>(
  inputs: readonly Name[],
  write: (inputs: Readonly<Record<Name, Term>>, math: FormulaMath) => unknown,
): Formula {
  const nodes: FormulaNode[] = []
  const own = new Set<unknown>()
  const note = (node: FormulaNode): Term => {
    if (nodes.length >= MAX_NODES) throw new FormulaError(`has more than ${MAX_NODES} operators`)
    const term = Object.freeze({ at: nodes.push(node) - 1 })
    own.add(term)
    return term
  }
  const read = (operand: unknown, operator: string): number => {
    if (typeof operand === 'number') {
      if (Number.isFinite(operand)) return note(['number', operand]).at
      throw new FormulaError(`gives ${operator} the number ${operand}, expected a finite one`)
    }
    if (own.has(operand)) return (operand as Term).at
    throw new FormulaError(`gives ${operator} ${describe(operand)}, expected a number or a value of the formula`)
  }
  const operators = Object.entries(OPERATORS).map(([name, { arity }]) => [
    name,
    (...operands: unknown[]) => note([name, ...Array.from({ length: arity }, (_, i) => read(operands[i], name))]),
  ])
  const reductions = [...REDUCTIONS, 'stop'].map((name) => [name, (x: unknown) => note([name, read(x, name)])])
  const math = Object.fromEntries([...operators, ...reductions]) as FormulaMath & Record<string, unknown>
  const clip = (x: Operand, low: unknown, high: unknown): Term => {
    if (typeof low !== 'number' || typeof high !== 'number' || !(low <= high)) {
      throw new FormulaError(`clips between ${describe(low)} and ${describe(high)}, expected two numbers in order`)
    }
    return note(['clip', read(x, 'clip'), low, high])
  }
  const logSigmoid = (x: Operand): Term => math.neg(math.softplus(math.neg(x)))
  const given = Object.fromEntries(inputs.map((name) => [name, note(['input', name])])) as Record<Name, Term>
  const result = write(Object.freeze(given), Object.freeze({ ...math, clip, logSigmoid }))
  if (!own.has(result)) throw new FormulaError(`returns ${describe(result)}, expected a value made by its operators`)
  return { nodes: prune(nodes, (result as Term).at) }
}

/**
 * Reads a formula that somebody sent.
 *
 * @param inputs names that it may read
 * @param reductions operators over sequences or groups that it may use
 * @throws {FormulaError}
 */
export function parseFormula(value: JsonValue, inputs: readonly string[], reductions: readonly string[]): Formula {
  const nodes = isJsonObject(value) ? value['nodes'] : undefined
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > MAX_NODES) {
    throw new FormulaError(`must be an object with "nodes", a list of 1 to ${MAX_NODES} operators`)
  }
  for (const [at, node] of nodes.entries()) {
    const problem = problemOf(node, { at, inputs, reductions })
    if (problem !== null) throw new FormulaError(`has as nodes[${at}] ${describe(node)}: ${problem}`)
  }
  return { nodes: nodes as FormulaNode[] }
}

/**
 * The formula with formulas in place of some of its inputs.
 *
 * @param inner by the names of the inputs
 */
export function composeFormula({ nodes }: Formula, inner: Readonly<Record<string, Formula>>): Formula {
  const made: FormulaNode[] = []
  const copy = (from: readonly FormulaNode[], inputs: ReadonlyMap<string, number>): number => {
    const place: number[] = []
    for (const node of from) {
      const [name, ...rest] = node
      const count = operandsOf(node).length
      const known = name === 'input' ? inputs.get(String(rest[0])) : undefined
      place.push(
        known ?? made.push([name, ...rest.map((each, i) => (i < count ? (place[Number(each)] as number) : each))]) - 1,
      )
    }
    return place.at(-1) ?? 0
  }
  const read = new Set(inputsOf({ nodes }))
  const places = Object.entries(inner).flatMap(([name, formula]): [string, number][] =>
    read.has(name) ? [[name, copy(formula.nodes, new Map())]] : [],
  )
  copy(nodes, new Map(places))
  return { nodes: made }
}

/** Names of the inputs that a formula reads. */
export function inputsOf({ nodes }: Formula): string[] {
  return nodes.flatMap(([name, input]) => (name === 'input' ? [String(input)] : []))
}

/** Whether it has an operator. */
export function hasOperator({ nodes }: Formula, name: string): boolean {
  return nodes.some(([each]) => each === name)
}

function problemOf(
  node: unknown,
  {
    at,
    inputs,
    reductions,
  }: { readonly at: number; readonly inputs: readonly string[]; readonly reductions: readonly string[] },
): string | null {
  if (!Array.isArray(node) || typeof node[0] !== 'string') return 'expected a list that begins with an operator'
  const [name, ...rest] = node as [string, ...unknown[]]
  if (name === 'input')
    return rest.length === 1 && inputs.includes(String(rest[0])) ? null : `inputs are ${inputs.join(', ')}`
  if (name === 'number') return rest.length === 1 && Number.isFinite(rest[0]) ? null : 'expected one finite number'
  const isClip = name === 'clip'
  const isSingle = isClip || name === 'stop' || reductions.includes(name)
  const arity = isSingle ? 1 : Object.hasOwn(OPERATORS, name) ? OPERATORS[name as OperatorName].arity : 0
  if (arity === 0) return `operators are ${[...Object.keys(OPERATORS), 'clip', 'stop', ...reductions].join(', ')}`
  const operands = isClip ? rest.slice(0, 1) : rest
  const isBefore = operands.every((each) => Number.isInteger(each) && (each as number) >= 0 && (each as number) < at)
  if (operands.length !== arity || !isBefore) return `expected ${arity} positions before its own`
  if (!isClip) return null
  const [low, high] = rest.slice(1)
  const isRange = rest.length === 3 && Number.isFinite(low) && Number.isFinite(high) && Number(low) <= Number(high)
  return isRange ? null : 'expected a position and two finite bounds in order'
}

/** What the result is made of, in the order in which it was noted. */
function prune(nodes: readonly FormulaNode[], result: number): FormulaNode[] {
  const isUsed = new Set([result])
  for (let at = result; at >= 0; at--) {
    if (isUsed.has(at)) for (const operand of operandsOf(nodes[at] as FormulaNode)) isUsed.add(operand)
  }
  const kept = [...isUsed].sort((a, b) => a - b)
  const place = new Map(kept.map((at, index) => [at, index]))
  return kept.map((at) => {
    const [name, ...rest] = nodes[at] as FormulaNode
    const count = operandsOf(nodes[at] as FormulaNode).length
    return [name, ...rest.map((each, i) => (i < count ? (place.get(each as number) as number) : each))]
  })
}

/** Positions that a node reads. */
export function operandsOf([name, ...rest]: FormulaNode): number[] {
  if (name === 'input' || name === 'number') return []
  return (name === 'clip' ? rest.slice(0, 1) : rest) as number[]
}

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'number') return String(value)
  return typeof value === 'function' ? 'a function' : (JSON.stringify(value) ?? typeof value).slice(0, 80)
}
