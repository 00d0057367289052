/**
 * Runs a graph in float64, node by node, as the specification says: the oracle of the numeric tests.
 *
 * Floats are never rounded on the way, so the result is what float32 execution approximates.
 */
import type { Graph, Node, Value } from '#numerics/graph/graph.js'
import { elementCount } from '#numerics/tensor/host-tensor.js'
import { REFERENCE_OPERATORS } from './reference-operators.js'
import { type ReferenceTensor, reference, toReference } from './reference-tensor.js'

/**
 * Evaluates a graph.
 *
 * @param feeds one tensor per input, by name
 * @returns outputs by name
 */
export function referenceEvaluate(
  graph: Graph,
  feeds: Readonly<Record<string, ReferenceTensor>>,
): Record<string, ReferenceTensor> {
  const values = new Map<Value, ReferenceTensor>()
  for (const input of graph.inputs) {
    const tensor = feeds[input.name]
    if (tensor === undefined) throw new Error(`no value for input "${input.name}"`)
    values.set(input, tensor)
  }
  run(graph, values)
  return Object.fromEntries(graph.outputs.map((value) => [value.name, tensorOf(values, value)]))
}

function run(graph: Graph, values: Map<Value, ReferenceTensor>): void {
  for (const initializer of graph.initializers) {
    if (initializer.kind === 'external') throw new Error(`the reference reads no files: ${initializer.value.name}`)
    values.set(initializer.value, toReference(initializer.data))
  }
  for (const node of graph.nodes) {
    const evaluate = { Loop: runLoop, If: runBranch }[node.op] ?? runNode
    const outputs = evaluate(node, values)
    for (const [index, output] of node.outputs.entries()) values.set(output, outputs[index]!)
  }
}

function runNode(node: Node, values: ReadonlyMap<Value, ReferenceTensor>): readonly ReferenceTensor[] {
  const operator = REFERENCE_OPERATORS.get(node.op)
  if (operator === undefined) throw new Error(`the reference has no ${node.op}`)
  const inputs = node.inputs.map((value) => (value === null ? null : tensorOf(values, value)))
  return operator(inputs, node.attributes, node)
}

/** ONNX Loop without a condition: `inputs[0]` rounds, then carried values; the body returns condition, carried, scanned. */
function runLoop(node: Node, values: ReadonlyMap<Value, ReferenceTensor>): readonly ReferenceTensor[] {
  const body = node.attributes['body']
  if (body?.kind !== 'graph') throw new Error('Loop without a body')
  const rounds = tensorOf(values, node.inputs[0]!).data[0]!
  let carried = node.inputs.slice(2).map((value) => tensorOf(values, value!))
  const scanned: ReferenceTensor[][] = body.value.outputs.slice(carried.length + 1).map(() => [])
  for (let round = 0; round < rounds; round++) {
    const inner = new Map(values)
    const entering = [reference('int64', [], [round]), reference('bool', [], [1]), ...carried]
    for (const [index, input] of body.value.inputs.entries()) inner.set(input, entering[index]!)
    run(body.value, inner)
    const results = body.value.outputs.slice(1).map((value) => tensorOf(inner, value))
    const count = carried.length
    carried = results.slice(0, count)
    for (const [index, tensor] of results.slice(count).entries()) scanned[index]!.push(tensor)
  }
  return [...carried, ...scanned.map(stack)]
}

function runBranch(node: Node, values: ReadonlyMap<Value, ReferenceTensor>): readonly ReferenceTensor[] {
  const isTrue = tensorOf(values, node.inputs[0]!).data[0] !== 0
  const body = node.attributes[isTrue ? 'then_branch' : 'else_branch']
  if (body?.kind !== 'graph') throw new Error('If without a body')
  const inner = new Map(values)
  run(body.value, inner)
  return body.value.outputs.map((value) => tensorOf(inner, value))
}

function stack(tensors: readonly ReferenceTensor[]): ReferenceTensor {
  const [first] = tensors
  if (first === undefined) throw new Error('the reference stacks at least one round')
  const size = elementCount(first.shape)
  const data = new Float64Array(size * tensors.length)
  for (const [index, tensor] of tensors.entries()) data.set(tensor.data, index * size)
  return { dtype: first.dtype, shape: [tensors.length, ...first.shape], data }
}

function tensorOf(values: ReadonlyMap<Value, ReferenceTensor>, value: Value): ReferenceTensor {
  const tensor = values.get(value)
  if (tensor === undefined) throw new Error(`%${value.name} has no value`)
  return tensor
}
