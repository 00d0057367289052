/**
 * Runs the passes in an order in which each benefits from the one before.
 */
import type { Graph } from '../graph.js'
import { foldConstants } from './fold-constants.js'
import { mergeDuplicates } from './merge-duplicates.js'
import { removeDead } from './remove-dead.js'

/** The same computation with fewer nodes: same inputs, same outputs, same numbers. */
export function optimize(graph: Graph): Graph {
  return removeDead(mergeDuplicates(foldConstants(removeDead(graph))))
}
