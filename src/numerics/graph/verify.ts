/**
 * Checks a finished graph: everything is made before it is used, names are unique, types are what the operators return.
 *
 * The builder checks the same while it builds; this is for graphs that passes rewrote, and for tests.
 */
import { GraphError } from '#base/errors/errors.js'
import { elementCount, type HostTensor } from '#numerics/tensor/host-tensor.js'
import { formatShape, isSameShape } from './dims.js'
import type { Graph, Initializer, Node, Value } from './graph.js'
import { printNode } from './print.js'
import { SIGNATURES } from './signatures/table.js'
import { capturedValues } from './traverse.js'

/** What is known at a point of the graph. */
interface Known {
  readonly values: Set<Value>
  readonly names: Set<string>
  readonly constants: Map<Value, HostTensor>
}

/**
 * Verifies a graph and its Loop bodies.
 *
 * @throws {GraphError} `bad_graph` with the offending node
 */
export function verifyGraph(graph: Graph): void {
  verify(graph, { values: new Set(), names: new Set(), constants: new Map() })
}

function verify(graph: Graph, outer: Known): void {
  const known: Known = { ...outer, values: new Set(outer.values) }
  for (const value of graph.inputs) define(value, known, graph)
  for (const initializer of graph.initializers) {
    define(initializer.value, known, graph)
    verifyInitializer(initializer)
    if (initializer.kind === 'inline') known.constants.set(initializer.value, initializer.data)
  }
  for (const node of graph.nodes) verifyNode(node, known, graph)
  if (new Set(graph.outputs).size !== graph.outputs.length) throw bad(`graph "${graph.name}" has one output twice`)
  for (const value of graph.outputs) {
    if (!known.values.has(value)) throw bad(`output "${value.name}" of graph "${graph.name}" is never made`)
  }
}

function verifyNode(node: Node, known: Known, graph: Graph): void {
  for (const input of node.inputs) {
    if (input !== null && !known.values.has(input)) throw bad(`%${input.name} is used before it is made`, node)
  }
  for (const attribute of Object.values(node.attributes)) {
    if (attribute.kind !== 'graph') continue
    const missing = capturedValues(attribute.value).find((value) => !known.values.has(value))
    if (missing !== undefined) throw bad(`%${missing.name} is used in a body before it is made`, node)
    verify(attribute.value, known)
  }
  const signature = SIGNATURES.get(node.op)
  if (signature?.domain === node.domain) {
    const constantOf = (value: Value): HostTensor | null => known.constants.get(value) ?? null
    const types = signature.infer({ ...node, constantOf })
    for (const [index, type] of (types ?? []).entries()) {
      const output = node.outputs[index]
      if (output === undefined || output.dtype !== type.dtype || !isSameShape(output.shape, type.shape)) {
        throw bad(`output ${index} should be ${type.dtype} ${formatShape(type.shape)}`, node)
      }
    }
  }
  for (const output of node.outputs) define(output, known, graph)
}

function define(value: Value, known: Known, graph: Graph): void {
  if (known.names.has(value.name)) throw bad(`graph "${graph.name}" makes %${value.name} twice`)
  known.names.add(value.name)
  known.values.add(value)
}

function verifyInitializer(initializer: Initializer): void {
  const { name, shape, dtype } = initializer.value
  const sizes = shape.map(Number)
  if (sizes.some(Number.isNaN)) throw bad(`constant %${name} has the symbolic shape ${formatShape(shape)}`)
  if (initializer.kind !== 'inline') return
  const isRight = initializer.data.dtype === dtype && initializer.data.data.length === elementCount(sizes)
  if (!isRight) throw bad(`constant %${name} does not hold ${dtype} ${formatShape(shape)}`)
}

function bad(reason: string, node?: Node): GraphError {
  return new GraphError('bad_graph', node === undefined ? reason : `${reason}: ${printNode(node)}`)
}
