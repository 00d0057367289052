/**
 * If: one of two bodies runs, as a scalar says at run time; both may use values of the graph around them.
 *
 * Weights stay in that graph, so a model that is there in two variants holds them once: ONNX Runtime packs what both bodies
 * multiply with a single time (two products of one 84 MB weight, in one body or in two: resident memory grows by 104 MB in
 * each case). Not differentiable.
 */
import { GraphError } from '#base/errors/errors.js'
import { subgraph } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import { formatShape, isSameShape } from '../dims.js'
import type { Graph, Value } from '../graph.js'

export interface Branches {
  readonly whenTrue: (body: GraphBuilder) => readonly Value[]
  readonly whenFalse: (body: GraphBuilder) => readonly Value[]
}

/**
 * Appends an If.
 *
 * @param condition bool []
 * @returns what the body that runs returns
 * @throws {GraphError} `bad_operand` if the bodies return values of different types
 */
export function branch(g: GraphBuilder, condition: Value, { whenTrue, whenFalse }: Branches): readonly Value[] {
  const [yes, no] = [bodyOf(g, 'then', whenTrue), bodyOf(g, 'else', whenFalse)]
  const list = (values: readonly Value[]): string =>
    values.map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`).join(', ')
  const isSame = (value: Value, other: Value | undefined): boolean =>
    other !== undefined && value.dtype === other.dtype && isSameShape(value.shape, other.shape)
  if (yes.values.length !== no.values.length || !yes.values.every((value, at) => isSame(value, no.values[at]))) {
    throw new GraphError('bad_operand', `If returns (${list(yes.values)}) or (${list(no.values)})`)
  }
  const bodies = { then_branch: subgraph(yes.graph), else_branch: subgraph(no.graph) }
  return g.node('If', [condition], bodies)
}

function bodyOf(
  g: GraphBuilder,
  name: string,
  build: Branches['whenTrue'],
): { readonly graph: Graph; readonly values: readonly Value[] } {
  let values: readonly Value[] = []
  const graph = g.subgraph(g.freshName(`${name}_body`), (body) => {
    values = build(body)
    for (const [at, value] of values.entries()) body.output(value, `${body.name}_${at}`)
  })
  return { graph, values }
}
