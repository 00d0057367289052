/**
 * Formulas (`base/formula`) as graph operators. Values that belong together by sequence are averaged by a matrix of who belongs
 * where.
 */
import { type Formula, FormulaError, operandsOf } from '#base/formula/formula.js'
import type { OperatorName } from '#base/formula/operators.js'
import type { GraphBuilder } from '../graph/builder.js'
import type { Value } from '../graph/graph.js'
import * as ops from '../graph/ops/elementwise.js'
import { topK } from '../graph/ops/indexing.js'

type Emit = (g: GraphBuilder, a: Value, b: Value, c: Value) => Value

const EMIT: Readonly<Record<OperatorName, Emit>> = {
  add: ops.add,
  sub: ops.sub,
  mul: ops.mul,
  div: ops.div,
  min: ops.minimum,
  max: ops.maximum,
  neg: ops.neg,
  exp: ops.exp,
  log: ops.log,
  sqrt: ops.sqrt,
  abs: ops.abs,
  tanh: ops.tanh,
  sigmoid: ops.sigmoid,
  softplus,
  less: (g, a, b) => ops.cast(g, ops.less(g, a, b), 'float32'),
  greater: (g, a, b) => ops.cast(g, ops.greater(g, a, b), 'float32'),
  where: (g, a, b, c) => ops.where(g, ops.greater(g, ops.abs(g, a), g.scalar(0)), b, c),
}

/**
 * Emits a formula.
 *
 * @param inputs float32 values by the names of its inputs, all of one shape
 * @param sequenceMean the mean over each place's own sequence; null where there are none
 * @returns of the shape of its inputs, or [] of a formula that reads none
 */
export function emitFormula(
  g: GraphBuilder,
  { nodes }: Formula,
  {
    inputs,
    sequenceMean = null,
  }: { readonly inputs: Readonly<Record<string, Value>>; readonly sequenceMean?: ((x: Value) => Value) | null },
): Value {
  const values: Value[] = []
  const emit = (node: Formula['nodes'][number]): Value => {
    const [name, ...rest] = node
    const [a, b, c] = operandsOf(node).map((at) => values[at] as Value) as [Value, Value, Value]
    switch (name) {
      case 'input':
        return inputs[String(rest[0])] ?? missing(`the input ${rest[0]}`)
      case 'number':
        return g.scalar(Number(rest[0]))
      case 'stop':
        return ops.stopGradient(g, a)
      case 'clip':
        return ops.clip(g, a, g.scalar(Number(rest[1])), g.scalar(Number(rest[2])))
      case 'batchSort':
        return ascending(g, a)
      case 'sequenceMean':
        return sequenceMean?.(a) ?? missing('sequences')
      default:
        return EMIT[name as OperatorName](g, a, b, c)
    }
  }
  for (const node of nodes) values.push(emit(node))
  return values.at(-1) ?? missing('a result')
}

/** @param x [P] */
function ascending(g: GraphBuilder, x: Value): Value {
  const [count = 1] = x.shape
  return ops.neg(g, topK(g, ops.neg(g, x), count, 0).values)
}

function missing(what: string): never {
  throw new FormulaError(`is computed without ${what}`)
}

/** log(1 + exp(x)) without overflow. Its pieces have no derivative at 0: the slope is given instead. */
export function softplus(g: GraphBuilder, x: Value): Value {
  const fixed = ops.stopGradient(g, x)
  const tail = ops.log(g, ops.add(g, ops.exp(g, ops.neg(g, ops.abs(g, fixed))), g.scalar(1)))
  const linear = ops.mul(g, ops.sigmoid(g, fixed), x)
  const value = ops.add(g, ops.maximum(g, fixed, g.scalar(0)), tail)
  return ops.add(g, ops.stopGradient(g, ops.sub(g, value, linear)), linear)
}
