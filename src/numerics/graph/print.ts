/**
 * Graphs as text: stable between runs, one line per node, for goldens and error messages.
 */
import { append } from '#base/util/lists.js'
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import { formatShape } from './dims.js'
import type { Attribute, Graph, Initializer, Node, Value } from './graph.js'

/** Longest constant that is printed element by element. */
const PRINTED_ELEMENTS = 8

/**
 * The whole graph as text.
 *
 * @example
 * graph "linear"
 *   input %x: float32 [B, 8]
 *   external %w: float32 [4, 8] = weights.bin[0:128]
 *   %gemm_1: float32 [B, 4] = Gemm(%x, %w) {transB=1}
 *   output %gemm_1
 */
export function printGraph(graph: Graph): string {
  return `${graphLines(graph).join('\n')}\n`
}

/** One node as `printGraph` writes it, without its subgraphs. */
export function printNode(node: Node): string {
  const outputs = node.outputs.map(typedName).join(', ')
  const inputs = node.inputs.map((value) => (value === null ? '_' : `%${value.name}`)).join(', ')
  const attributes = Object.entries(node.attributes)
    .filter(([, attribute]) => attribute.kind !== 'graph')
    .map(([name, attribute]) => `${name}=${printAttribute(attribute)}`)
    .sort()
  const suffix = attributes.length === 0 ? '' : ` {${attributes.join(', ')}}`
  const op = node.domain === '' ? node.op : `${node.domain}.${node.op}`
  return `${outputs} = ${op}(${inputs})${suffix}`
}

function graphLines(graph: Graph): readonly string[] {
  const lines = [`graph "${graph.name}"`]
  for (const value of graph.inputs) lines.push(`  input ${typedName(value)}`)
  for (const initializer of graph.initializers) lines.push(`  ${printInitializer(initializer)}`)
  let scope = ''
  for (const node of graph.nodes) {
    if (node.scope !== scope) {
      scope = node.scope
      lines.push(`  # ${scope === '' ? 'top' : scope}`)
    }
    lines.push(`  ${printNode(node)}`)
    for (const [name, attribute] of Object.entries(node.attributes)) {
      if (attribute.kind !== 'graph') continue
      append(lines, [`    ${name}:`, ...graphLines(attribute.value).map((line) => `      ${line}`)])
    }
  }
  for (const value of graph.outputs) lines.push(`  output %${value.name}`)
  return lines
}

function typedName(value: Value): string {
  return `%${value.name}: ${value.dtype} ${formatShape(value.shape)}`
}

function printInitializer(initializer: Initializer): string {
  if (initializer.kind === 'inline')
    return `constant ${typedName(initializer.value)} = ${printTensor(initializer.data)}`
  const { file, offsetBytes, sizeBytes } = initializer
  return `external ${typedName(initializer.value)} = ${file}[${offsetBytes}:${offsetBytes + sizeBytes}]`
}

function printAttribute(attribute: Attribute): string {
  switch (attribute.kind) {
    case 'int':
    case 'float':
      return String(attribute.value)
    case 'string':
      return JSON.stringify(attribute.value)
    case 'ints':
      return `[${attribute.value.join(', ')}]`
    case 'tensor':
      return printTensor(attribute.value)
    case 'graph':
      return attribute.value.name
  }
}

function printTensor(tensor: HostTensor): string {
  const elements = Array.from(tensor.data.subarray(0, PRINTED_ELEMENTS), String)
  if (tensor.data.length > PRINTED_ELEMENTS) elements.push(`… ${tensor.data.length} elements`)
  return tensor.shape.length === 0 ? elements.join('') : `[${elements.join(', ')}]`
}
