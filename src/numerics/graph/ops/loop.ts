/**
 * Loop: a body that runs a number of times, carries values from one iteration to the next and stacks what each one yields.
 *
 * The body may use values of the graph around it. ONNX Runtime frees what an iteration made before the next one
 * starts, and that is the point here: large intermediate results exist one chunk at a time. Not differentiable.
 */
import { GraphError } from '#base/errors/errors.js'
import { subgraph } from '../attributes.js'
import type { GraphBuilder } from '../builder.js'
import { formatShape, isSameShape } from '../dims.js'
import type { Dim, Value } from '../graph.js'

/** What one iteration returns. */
export interface LoopRound {
  /** Next values of what is carried, same types. */
  readonly carried?: readonly Value[]
  /** Stacked over iterations along a new first axis. */
  readonly scanned?: readonly Value[]
}

export interface LoopOptions {
  /** Number of iterations: a size, known or symbolic. */
  readonly count: Dim
  /** Values before the first iteration. */
  readonly carried: readonly Value[]
  /** Builds one iteration on `body`: `index` is its number (int64 scalar), `carried` what the previous one left. */
  readonly body: (body: GraphBuilder, index: Value, carried: readonly Value[]) => LoopRound
}

/**
 * Appends a Loop.
 *
 * @returns the last carried values, and each scanned value with `count` as its new first axis
 * @throws {GraphError} `bad_operand` if a carried value changes its type
 *
 * @example
 * const { scanned } = loop(g, {
 *   count: 'Q',
 *   carried: [],
 *   body: (body, index) => ({ scanned: [exp(body, gather(body, chunks, index, 0))] }),
 * })
 */
export function loop(
  g: GraphBuilder,
  options: LoopOptions,
): { readonly carried: readonly Value[]; readonly scanned: readonly Value[] } {
  const { count, carried } = options
  const outputs: { readonly carried: readonly Value[]; readonly scanned: readonly Value[] }[] = []
  const trips =
    typeof count === 'number'
      ? g.int64Scalar(count)
      : (g.node('Squeeze', [g.dimValue(count), g.int64s([0])])[0] as Value)
  const graph = g.subgraph(g.freshName('loop_body'), (body) => {
    const index = body.input(`${body.name}_index`, 'int64', [])
    const condition = body.input(`${body.name}_continue`, 'bool', [])
    const entering = carried.map((value, at) => body.input(`${body.name}_carried_${at}`, value.dtype, value.shape))
    const round = options.body(body, index, entering)
    const { carried: leaving = [], scanned = [] } = round
    assertCarried(carried, leaving)
    body.output(condition, `${body.name}_continue_next`)
    for (const [at, value] of leaving.entries()) body.output(value, `${body.name}_carried_next_${at}`)
    for (const [at, value] of scanned.entries()) body.output(value, `${body.name}_scanned_${at}`)
    outputs.push({ carried: leaving, scanned })
  })
  const scanned = outputs[0]?.scanned ?? []
  const types = [
    ...carried.map(({ dtype, shape }) => ({ dtype, shape })),
    ...scanned.map(({ dtype, shape }) => ({ dtype, shape: [count, ...shape] })),
  ]
  // ONNX wants the second input present, so the condition is a constant instead of left out.
  const isRunning = g.constant({ dtype: 'bool', shape: [], data: Uint8Array.of(1) })
  const results = g.node('Loop', [trips, isRunning, ...carried], { body: subgraph(graph) }, { outputs: types })
  return { carried: results.slice(0, carried.length), scanned: results.slice(carried.length) }
}

function assertCarried(before: readonly Value[], after: readonly Value[]): void {
  const isSame = before.length === after.length && before.every((value, at) => isSameType(value, after[at]))
  if (isSame) return
  const list = (values: readonly Value[]): string =>
    values.map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`).join(', ')
  throw new GraphError('bad_operand', `Loop carries (${list(before)}), its body returned (${list(after)})`)
}

function isSameType(a: Value, b: Value | undefined): boolean {
  return b !== undefined && a.dtype === b.dtype && isSameShape(a.shape, b.shape)
}
