/**
 * Cases of elementwise operators. Inputs stay away from kinks, where central differences mean nothing.
 */
import { float } from '#numerics/graph/attributes.js'
import {
  abs,
  add,
  and,
  cast,
  clip,
  cos,
  div,
  equal,
  exp,
  greater,
  greaterOrEqual,
  identity,
  isNaN as isNaNValue,
  less,
  lessOrEqual,
  log,
  maximum,
  minimum,
  mul,
  neg,
  not,
  or,
  pow,
  reciprocal,
  sigmoid,
  sign,
  sin,
  sqrt,
  stopGradient,
  sub,
  tanh,
  where,
} from '#numerics/graph/ops/elementwise.js'
import { quickGelu } from '#numerics/graph/ops/normalize.js'
import { integers, normals, opCase, uniforms } from '../../../support/reference/op-case.js'
import { reference } from '../../../support/reference/reference-tensor.js'

const x = normals([2, 3], { seed: 'a' })
const positive = uniforms([2, 3], 0.3, 2)
const mask = reference('bool', [2, 3], [1, 0, 0, 1, 1, 0])

/** Registers the cases. */
export function elementwiseCases(): void {
  const pairs = { a: normals([2, 1, 3], { seed: 'a' }), b: normals([4, 1], { seed: 'b' }) }
  opCase('Add', { inputs: pairs, build: (g, { a, b }) => add(g, a!, b!) })
  opCase('Add', { about: 'a symbolic batch and a bias', inputs: { a: x, b: normals([3]) }, symbols: { a: ['B', 3] } })
  opCase('Add', { about: 'both operands are one value', inputs: { a: x }, build: (g, { a }) => add(g, a!, a!) })
  opCase('Add', {
    about: 'int64',
    inputs: { a: integers([2], [1, -2]), b: integers([2], [5, 6]) },
    build: (g, { a, b }) => add(g, a!, b!),
  })
  opCase('Sub', { inputs: pairs, build: (g, { a, b }) => sub(g, a!, b!) })
  opCase('Mul', { inputs: pairs, build: (g, { a, b }) => mul(g, a!, b!) })
  opCase('Mul', { about: 'a square', inputs: { a: x }, build: (g, { a }) => mul(g, a!, a!) })
  opCase('Div', {
    inputs: { a: pairs.a, b: uniforms([4, 1], 0.5, 2) },
    build: (g, { a, b }) => div(g, a!, b!),
  })
  opCase('Div', {
    about: 'integers truncate towards zero',
    inputs: { a: integers([4], [7, -7, 7, -7]), b: integers([4], [2, 2, -2, -2]) },
    build: (g, { a, b }) => div(g, a!, b!),
  })
  opCase('Pow', { inputs: { a: positive, b: normals([3]) }, build: (g, { a, b }) => pow(g, a!, b!) })
  opCase('Pow', {
    about: 'a constant exponent and negative bases',
    inputs: { a: x },
    build: (g, { a }) => pow(g, a!, g.scalar(3)),
  })
  opCase('Min', { inputs: pairs, build: (g, { a, b }) => minimum(g, a!, b!) })
  opCase('Max', { inputs: pairs, build: (g, { a, b }) => maximum(g, a!, b!) })
  opCase('Max', {
    about: 'three scalars',
    inputs: { a: integers([], [3]), b: integers([], [5]), c: integers([], [4]) },
  })
  opCase('Neg', { inputs: { x }, build: (g, { x: v }) => neg(g, v!) })
  opCase('Abs', { inputs: { x }, build: (g, { x: v }) => abs(g, v!) })
  opCase('Sign', { inputs: { x }, build: (g, { x: v }) => sign(g, v!) })
  opCase('Exp', { inputs: { x }, build: (g, { x: v }) => exp(g, v!) })
  opCase('Log', { inputs: { x: positive }, build: (g, { x: v }) => log(g, v!) })
  opCase('Sqrt', { inputs: { x: positive }, build: (g, { x: v }) => sqrt(g, v!) })
  opCase('Sin', { inputs: { x }, build: (g, { x: v }) => sin(g, v!) })
  opCase('Cos', { inputs: { x }, build: (g, { x: v }) => cos(g, v!) })
  opCase('Reciprocal', { inputs: { x: positive }, build: (g, { x: v }) => reciprocal(g, v!) })
  opCase('Sigmoid', { inputs: { x }, build: (g, { x: v }) => sigmoid(g, v!) })
  opCase('Tanh', { inputs: { x }, build: (g, { x: v }) => tanh(g, v!) })
  opCase('Identity', { inputs: { x }, build: (g, { x: v }) => mul(g, identity(g, v!), g.scalar(2)) })
  opCase('StopGradient', {
    about: 'the value passes, its gradient does not',
    inputs: { x },
    build: (g, { x: v }) => stopGradient(g, v!),
    gradients: [],
  })
  opCase('QuickGelu', { about: 'SiLU', inputs: { x }, build: (g, { x: v }) => quickGelu(g, v!) })
  opCase('QuickGelu', { about: 'alpha 1.702', inputs: { x }, attributes: { alpha: float(1.702) } })
  opCase('Clip', { inputs: { x }, build: (g, { x: v }) => clip(g, v!, g.scalar(-0.51), g.scalar(0.77)) })
  opCase('Clip', {
    about: 'only a lower bound',
    inputs: { x },
    build: (g, { x: v }) => clip(g, v!, g.scalar(0.1), null),
  })
  opCase('Clip', {
    about: 'only an upper bound',
    inputs: { x },
    build: (g, { x: v }) => clip(g, v!, null, g.scalar(0.1)),
  })
  opCase('Where', {
    inputs: { mask, a: x, b: normals([3], { seed: 'b' }) },
    build: (g, { mask: c, a, b }) => where(g, c!, a!, b!),
  })
  opCase('Cast', {
    about: 'to float64 and back',
    inputs: { x },
    build: (g, { x: v }) => cast(g, exp(g, cast(g, v!, 'float64')), 'float32'),
  })
  opCase('Cast', {
    about: 'to int64 truncates',
    inputs: { x: reference('float32', [4], [1.7, -1.7, 0.2, 3]) },
    build: (g, { x: v }) => cast(g, v!, 'int64'),
    gradients: [],
  })
  opCase('Cast', { about: 'bool to float', inputs: { mask }, build: (g, { mask: m }) => cast(g, m!, 'float32') })
  comparisons()
}

function comparisons(): void {
  const inputs = { a: reference('float32', [4], [1, 2, 3, 3]), b: reference('float32', [4], [2, 2, 1, 3]) }
  const bools = { a: mask, b: reference('bool', [3], [1, 1, 0]) }
  opCase('Equal', { inputs, build: (g, { a, b }) => equal(g, a!, b!) })
  opCase('Less', { inputs, build: (g, { a, b }) => less(g, a!, b!) })
  opCase('Greater', { inputs, build: (g, { a, b }) => greater(g, a!, b!) })
  opCase('LessOrEqual', { inputs, build: (g, { a, b }) => lessOrEqual(g, a!, b!) })
  opCase('GreaterOrEqual', { inputs, build: (g, { a, b }) => greaterOrEqual(g, a!, b!) })
  opCase('And', { inputs: bools, build: (g, { a, b }) => and(g, a!, b!) })
  opCase('Or', { inputs: bools, build: (g, { a, b }) => or(g, a!, b!) })
  opCase('Not', { inputs: { mask }, build: (g, { mask: m }) => not(g, m!) })
  opCase('IsNaN', {
    inputs: { x: reference('float32', [3], [1, Number.NaN, Number.POSITIVE_INFINITY]) },
    build: (g, { x: v }) => isNaNValue(g, v!),
    gradients: [],
  })
}
