/**
 * Computes what is known when the graph is built, and drops nodes that change nothing.
 *
 * Only small tensors are folded: weights stay as they are. A reshape whose target is computed at run time is kept even where
 * it changes nothing, because it may be there to make a value wait (`numerics/autodiff/after.ts`).
 */
import { elementCount, type HostTensor, int64Tensor } from '#numerics/tensor/host-tensor.js'
import { readInt, readInts } from '../attributes.js'
import { isSameShape } from '../dims.js'
import type { Graph, Initializer, Node, Value } from '../graph.js'
import { mapSubgraphs, substituteInputs } from '../traverse.js'
import { evaluateConstant } from './constant-arithmetic.js'

/** Largest result that is stored in the model instead of computed. */
const FOLDED_ELEMENTS = 256

/** A graph with constant arithmetic done and neutral nodes gone; Loop bodies are rewritten too. */
export function foldConstants(graph: Graph): Graph {
  return fold(graph, new Map())
}

function fold(graph: Graph, outer: ReadonlyMap<Value, HostTensor>): Graph {
  const outputs = new Set<Value>(graph.outputs)
  const constants = new Map(outer)
  const initializers: Initializer[] = [...graph.initializers]
  for (const initializer of initializers) {
    if (initializer.kind === 'inline') constants.set(initializer.value, initializer.data)
  }
  const replace = new Map<Value, Value>()
  const makers = new Map<Value, Node>()
  const nodes: Node[] = []
  for (const original of graph.nodes) {
    const substituted = mapSubgraphs(substituteInputs(original, replace), (body) => fold(body, constants))
    const node = joinTransposes(substituted, makers)
    const [output] = node.outputs
    const isOutput = node.outputs.some((value) => outputs.has(value))
    if (output !== undefined && !isOutput) {
      const same = unchangedInput(node, constants)
      if (same !== null) {
        replace.set(output, same)
        continue
      }
      const data = constantResult(node, constants)
      if (data !== null) {
        constants.set(output, data)
        initializers.push({ kind: 'inline', value: output, data })
        continue
      }
    }
    for (const value of node.outputs) makers.set(value, node)
    nodes.push(node)
  }
  return { ...graph, initializers, nodes }
}

/** The input that a node passes through unchanged, or null. */
function unchangedInput(node: Node, constants: ReadonlyMap<Value, HostTensor>): Value | null {
  const [input, second] = node.inputs
  const output = node.outputs[0]
  if (!input || !output || input.dtype !== output.dtype || !isSameShape(input.shape, output.shape)) return null
  const operand = second ? constants.get(second) : undefined
  switch (node.op) {
    case 'Identity':
    case 'StopGradient':
    case 'Cast':
      return input
    case 'Reshape':
    case 'Expand':
      return operand === undefined ? null : input
    case 'Transpose':
      return readInts(node.attributes, 'perm')?.every((axis, index) => axis === index) ? input : null
    case 'Mul':
    case 'Div':
      return operand?.data.length === 1 && Number(operand.data[0]) === 1 ? input : null
    default:
      return null
  }
}

function constantResult(node: Node, constants: ReadonlyMap<Value, HostTensor>): HostTensor | null {
  const [output] = node.outputs
  if (output === undefined || node.outputs.length !== 1) return null
  if (node.op === 'Shape') return constantShape(node)
  const shape = output.shape.map(Number)
  if (shape.some(Number.isNaN) || elementCount(shape) > FOLDED_ELEMENTS || node.inputs.length === 0) return null
  const inputs: HostTensor[] = []
  for (const value of node.inputs) {
    const data = value === null ? undefined : constants.get(value)
    if (data === undefined) return null
    inputs.push(data)
  }
  return evaluateConstant(node, inputs, shape)
}

function constantShape(node: Node): HostTensor | null {
  const shape = node.inputs[0]?.shape ?? []
  const start = readInt(node.attributes, 'start', 0)
  const sizes = shape.slice(start, readInt(node.attributes, 'end', shape.length)).map(Number)
  return sizes.some(Number.isNaN) ? null : int64Tensor(sizes)
}

/** Two transposes in a row become one. */
function joinTransposes(node: Node, makers: ReadonlyMap<Value, Node>): Node {
  const [input] = node.inputs
  const before = input ? makers.get(input) : undefined
  const second = node.op === 'Transpose' ? readInts(node.attributes, 'perm') : null
  const first = before?.op === 'Transpose' ? readInts(before.attributes, 'perm') : null
  if (!before || !first || !second) return node
  const perm = second.map((axis) => first[axis] as number)
  return { ...node, inputs: before.inputs, attributes: { perm: { kind: 'ints', value: perm } } }
}
