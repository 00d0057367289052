/**
 * Common subexpressions: nodes that do the same to the same values become one. All operators are pure, so this is safe.
 *
 * Nodes that make an output keep their own identity, because the output is found by its name; so do nodes with a body.
 */
import type { Attribute, Graph, Initializer, Node, Value } from '../graph.js'
import { hasSubgraph, mapSubgraphs, substituteInputs } from '../traverse.js'

/** Inline constants up to this size are compared by content. */
const COMPARED_BYTES = 4096

/** A graph without repeated nodes and repeated small constants; Loop bodies are rewritten too. */
export function mergeDuplicates(graph: Graph): Graph {
  return merge(graph)
}

function merge(graph: Graph): Graph {
  const outputs = new Set<Value>(graph.outputs)
  const replace = new Map<Value, Value>()
  const initializers = mergeConstants(graph.initializers, replace)
  const seen = new Map<string, Node>()
  const nodes: Node[] = []
  for (const original of graph.nodes) {
    const node = mapSubgraphs(substituteInputs(original, replace), merge)
    if (hasSubgraph(node) || node.outputs.some((value) => outputs.has(value))) {
      nodes.push(node)
      continue
    }
    const key = nodeKey(node)
    const twin = seen.get(key)
    if (twin === undefined) {
      seen.set(key, node)
      nodes.push(node)
    } else {
      for (const [index, value] of node.outputs.entries()) replace.set(value, twin.outputs[index] as Value)
    }
  }
  return { ...graph, initializers, nodes }
}

function mergeConstants(initializers: readonly Initializer[], replace: Map<Value, Value>): readonly Initializer[] {
  const seen = new Map<string, Value>()
  return initializers.filter((initializer) => {
    if (initializer.kind !== 'inline' || initializer.data.data.byteLength > COMPARED_BYTES) return true
    const { dtype, shape, data } = initializer.data
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')
    const key = `${dtype} ${shape.join(',')} ${bytes}`
    const twin = seen.get(key)
    if (twin === undefined) {
      seen.set(key, initializer.value)
      return true
    }
    replace.set(initializer.value, twin)
    return false
  })
}

/** Text that two nodes share exactly if they compute the same. Value names are unique in a graph. */
function nodeKey(node: Node): string {
  const inputs = node.inputs.map((value) => value?.name ?? '').join(' ')
  const attributes = Object.entries(node.attributes)
    .map(([name, attribute]) => `${name}=${attributeKey(attribute)}`)
    .sort()
    .join(' ')
  return `${node.domain}|${node.op}|${inputs}|${attributes}|${node.outputs.length}`
}

function attributeKey(attribute: Attribute): string {
  switch (attribute.kind) {
    case 'tensor': {
      const { dtype, shape, data } = attribute.value
      return `${dtype} ${shape.join(',')} ${Array.from(data, String).join(',')}`
    }
    case 'graph':
      return attribute.value.name
    case 'ints':
      return `[${attribute.value.join(',')}]`
    default:
      return `${attribute.kind}:${attribute.value}`
  }
}
