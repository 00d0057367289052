/**
 * The operators of formulas with their derivatives, number by number, in float64. Where a derivative does not exist the
 * convention is that of the graphs (`numerics/autodiff`), PyTorch's: equal operands of min and max get half each.
 */

interface Operator {
  readonly arity: 1 | 2 | 3
  readonly value: (a: number, b: number, c: number) => number
  /** Derivative of the value `y` by each operand. */
  readonly slopes: (at: readonly [number, number, number], y: number) => readonly number[]
}

const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))
const sigmoid = (x: number): number => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)))
const first = (a: number, b: number): number => (a === b ? 0.5 : a < b ? 1 : 0)
const NONE = [0, 0] as const

export const OPERATORS = {
  add: { arity: 2, value: (a, b) => a + b, slopes: () => [1, 1] },
  sub: { arity: 2, value: (a, b) => a - b, slopes: () => [1, -1] },
  mul: { arity: 2, value: (a, b) => a * b, slopes: ([a, b]) => [b, a] },
  div: { arity: 2, value: (a, b) => a / b, slopes: ([, b], y) => [1 / b, -y / b] },
  min: { arity: 2, value: (a, b) => Math.min(a, b), slopes: ([a, b]) => [first(a, b), first(b, a)] },
  max: { arity: 2, value: (a, b) => Math.max(a, b), slopes: ([a, b]) => [first(b, a), first(a, b)] },
  neg: { arity: 1, value: (a) => -a, slopes: () => [-1] },
  exp: { arity: 1, value: Math.exp, slopes: (_, y) => [y] },
  log: { arity: 1, value: Math.log, slopes: ([a]) => [1 / a] },
  sqrt: { arity: 1, value: Math.sqrt, slopes: (_, y) => [0.5 / y] },
  abs: { arity: 1, value: Math.abs, slopes: ([a]) => [Math.sign(a)] },
  tanh: { arity: 1, value: Math.tanh, slopes: (_, y) => [1 - y * y] },
  sigmoid: { arity: 1, value: sigmoid, slopes: (_, y) => [y * (1 - y)] },
  softplus: { arity: 1, value: softplus, slopes: ([a]) => [sigmoid(a)] },
  /** 1 or 0. */
  less: { arity: 2, value: (a, b) => (a < b ? 1 : 0), slopes: () => NONE },
  greater: { arity: 2, value: (a, b) => (a > b ? 1 : 0), slopes: () => NONE },
  where: { arity: 3, value: (a, b, c) => (a === 0 ? c : b), slopes: ([a]) => (a === 0 ? [0, 0, 1] : [0, 1, 0]) },
} as const satisfies Readonly<Record<string, Operator>>
export type OperatorName = keyof typeof OPERATORS

/** Operators over the values that belong together. */
const LOSS_REDUCTIONS = ['sequenceMean', 'batchSort'] as const
export const ADVANTAGE_REDUCTIONS = ['groupMean', 'groupDeviation', 'batchMean', 'batchDeviation'] as const
export const REDUCTIONS: readonly string[] = [...LOSS_REDUCTIONS, ...ADVANTAGE_REDUCTIONS]

export const operatorOf = (name: string): Operator => OPERATORS[name as OperatorName]
