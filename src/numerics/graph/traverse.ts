/**
 * Walking and rewriting graphs: what a node uses, and replacing values everywhere, Loop bodies included.
 */
import { append } from '#base/util/lists.js'
import type { Attribute, Graph, Node, Value } from './graph.js'

/** All values a node needs: its inputs and what its subgraphs take from the graph around them. */
export function usedValues(node: Node): readonly Value[] {
  const used: Value[] = []
  for (const input of node.inputs) if (input !== null) used.push(input)
  for (const attribute of Object.values(node.attributes)) {
    if (attribute.kind === 'graph') append(used, capturedValues(attribute.value))
  }
  return used
}

/** Values a subgraph uses but does not make. */
export function capturedValues(graph: Graph): readonly Value[] {
  const own = new Set<Value>([...graph.inputs, ...graph.initializers.map(({ value }) => value)])
  for (const node of graph.nodes) for (const output of node.outputs) own.add(output)
  const captured = new Set<Value>()
  for (const value of [...graph.nodes.flatMap(usedValues), ...graph.outputs]) if (!own.has(value)) captured.add(value)
  return [...captured]
}

/** Whether a node holds a subgraph. */
export function hasSubgraph(node: Node): boolean {
  return Object.values(node.attributes).some(({ kind }) => kind === 'graph')
}

/** The node with each of its subgraphs replaced; the same object if it has none. */
export function mapSubgraphs(node: Node, rewrite: (graph: Graph) => Graph): Node {
  if (!hasSubgraph(node)) return node
  const attributes: Record<string, Attribute> = {}
  for (const [name, attribute] of Object.entries(node.attributes)) {
    attributes[name] = attribute.kind === 'graph' ? { kind: 'graph', value: rewrite(attribute.value) } : attribute
  }
  return { ...node, attributes }
}

/** The node with its inputs (and what its subgraphs capture) replaced; the same object if nothing changes. */
export function substituteInputs(node: Node, replace: ReadonlyMap<Value, Value>): Node {
  if (replace.size === 0 || !usedValues(node).some((value) => replace.has(value))) return node
  const inputs = node.inputs.map((value) => (value === null ? null : (replace.get(value) ?? value)))
  const attributes: Record<string, Attribute> = {}
  for (const [name, attribute] of Object.entries(node.attributes)) {
    attributes[name] =
      attribute.kind === 'graph' ? { kind: 'graph', value: substituteCaptured(attribute.value, replace) } : attribute
  }
  return { ...node, inputs, attributes }
}

function substituteCaptured(graph: Graph, replace: ReadonlyMap<Value, Value>): Graph {
  return {
    ...graph,
    nodes: graph.nodes.map((node) => substituteInputs(node, replace)),
    outputs: graph.outputs.map((value) => replace.get(value) ?? value),
  }
}
