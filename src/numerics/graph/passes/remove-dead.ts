/**
 * Removes nodes and constants that no output depends on. Inputs stay: they are the model's signature.
 */
import type { Graph, Node, Value } from '../graph.js'
import { mapSubgraphs, usedValues } from '../traverse.js'

/** A graph with the same inputs and outputs and only the nodes they need; Loop bodies are cleaned too. */
export function removeDead(graph: Graph): Graph {
  const used = new Set<Value>(graph.outputs)
  const kept: Node[] = []
  for (const original of graph.nodes.toReversed()) {
    if (!original.outputs.some((value) => used.has(value))) continue
    const node = mapSubgraphs(original, removeDead)
    for (const value of usedValues(node)) used.add(value)
    kept.push(node)
  }
  return {
    ...graph,
    initializers: graph.initializers.filter(({ value }) => used.has(value)),
    nodes: kept.reverse(),
  }
}
