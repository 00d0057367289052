/**
 * Writes a graph as an ONNX model file. The few things our graph has and ONNX does not are translated here and nowhere else.
 *
 * Shapes between nodes are written too: for values whose shape it does not know, the runtime searches all memory that is free at that point
 * of the graph, at every node, while it plans (SmolLM2-135M: 1.3 of 2.2 s), and lets none of equal shape use the same memory.
 *
 * StopGradient becomes Identity, as do FrozenLinear and RowAttention, whose value is their first input and whose other inputs only
 * their gradients read; optional outputs that nothing uses are left out, so that kernels do not compute them.
 */
import { open, rm } from 'node:fs/promises'
import { moveFile } from '#base/util/move-file.js'
import {
  type AttributeDeclaration,
  encodeModel,
  type GraphDeclaration,
  type NodeDeclaration,
} from '#numerics/onnx/model-proto.js'
import type { Attribute, Graph, Node, Value } from './graph.js'
import { SIGNATURES } from './signatures/table.js'
import { usedValues } from './traverse.js'

/**
 * Writes a model file, atomically: under a temporary name first, then renamed.
 *
 * External constants are referred to relative to `path`'s directory; ONNX Runtime refuses files outside of it.
 *
 * @throws {GraphError} `model_too_large` if inline constants exceed 2 GB
 */
export async function writeOnnxModel(graph: Graph, path: string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`
  try {
    const file = await open(temporary, 'w')
    try {
      await file.writeFile(toOnnxModel(graph, path))
    } finally {
      await file.close()
    }
    await moveFile(temporary, path)
  } catch (error) {
    // on a full disk a part of it would keep the room
    await rm(temporary, { force: true })
    throw error
  }
}

/**
 * The bytes `writeOnnxModel` would write to `path`.
 *
 * @param isDeclared whether the shape of a value between nodes is written; default of all
 */
export function toOnnxModel(graph: Graph, path: string, isDeclared: IsDeclared = () => true): Uint8Array {
  return encodeModel(toDeclaration(graph, isDeclared), path)
}

type IsDeclared = (value: Value) => boolean

function toDeclaration(graph: Graph, isDeclared: IsDeclared): GraphDeclaration {
  const outputs: ReadonlySet<Value> = new Set(graph.outputs)
  const used = new Set<Value>(outputs)
  for (const node of graph.nodes) for (const value of usedValues(node)) used.add(value)
  return {
    name: graph.name,
    inputs: graph.inputs,
    outputs: graph.outputs,
    values: graph.nodes
      .flatMap((node) => node.outputs)
      .filter((value) => used.has(value) && !outputs.has(value) && isDeclared(value)),
    initializers: graph.initializers.map((initializer) => {
      const { name, dtype, shape } = initializer.value
      if (initializer.kind === 'inline') return { kind: 'inline', name, data: initializer.data }
      const { file, offsetBytes, sizeBytes } = initializer
      return { kind: 'external', name, dtype, shape: shape.map(Number), file, offsetBytes, sizeBytes }
    }),
    nodes: graph.nodes.map((node, index) => toNode(node, index, used, isDeclared)),
  }
}

/** Operators of ours that pass their first input on. */
const IDENTITIES: ReadonlySet<string> = new Set(['StopGradient', 'FrozenLinear', 'RowAttention'])

function toNode(node: Node, index: number, used: ReadonlySet<Value>, isDeclared: IsDeclared): NodeDeclaration {
  const optional = SIGNATURES.get(node.op)?.optionalOutputs ?? []
  const outputs = node.outputs.map((value, at) => (optional.includes(at) && !used.has(value) ? '' : value.name))
  while (outputs.length > 1 && outputs.at(-1) === '') outputs.pop()
  const isIdentity = IDENTITIES.has(node.op)
  const inputs = (isIdentity ? node.inputs.slice(0, 1) : node.inputs).map((value) => value?.name ?? '')
  while (inputs.length > 0 && inputs.at(-1) === '') inputs.pop()
  const attributes = isIdentity ? [] : Object.entries(node.attributes)
  return {
    name: `${node.scope === '' ? '' : `${node.scope}/`}${node.op}_${index}`,
    op: isIdentity ? 'Identity' : node.op,
    domain: node.domain,
    inputs,
    outputs,
    attributes: Object.fromEntries(attributes.map(([name, value]) => [name, toAttribute(value, isDeclared)])),
  }
}

function toAttribute(attribute: Attribute, isDeclared: IsDeclared): AttributeDeclaration {
  return attribute.kind === 'graph' ? { kind: 'graph', value: toDeclaration(attribute.value, isDeclared) } : attribute
}
