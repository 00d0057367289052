/**
 * Runs the passes in an order in which each benefits from the one before.
 */
import type { Graph, Node, Value } from '../graph.js'
import { mapSubgraphs, usedValues } from '../traverse.js'
import { foldConstants } from './fold-constants.js'
import { mergeDuplicates } from './merge-duplicates.js'

// Removes nodes and constants that no output depends on. Inputs stay: they are the model's signature.

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

/** The same computation with fewer nodes: same inputs, same outputs, same numbers. */
export function optimize(graph: Graph): Graph {
  return removeDead(mergeDuplicates(foldConstants(removeDead(graph))))
}
