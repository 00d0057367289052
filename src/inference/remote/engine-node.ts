/**
 * An engine node as an engine host is told of it, and which of several a request goes to.
 *
 * Requests that share adapter and beginning go to the same node, where the prefix is known, for as long as that node is not busier
 * than the others. Knows no connections.
 */
import { createHash } from 'node:crypto'
import type { NodeEngineName } from '#contract/processes/engine-node.js'
import type { RequestOwner } from '../engine/generation.js'

/** A node that lives, as the server has it. */
export interface EngineNode {
  readonly id: string
  readonly name: string
  readonly url: string
  readonly token: string
  /** The IP address that was checked, which alone is connected to; null: whatever the name in `url` says. */
  readonly address: string | null
  /** The operator's own: its words are shown to whoever asked. What another says of a failure stays here. */
  readonly isOperators: boolean
  readonly engine: NodeEngineName
  /** Whose requests it may see; project null: all of the entity. */
  readonly owner: RequestOwner
  readonly contextLength: number
  /** Answers it computes at once. */
  readonly slots: number
  /** Requests that wait there, as it said last. */
  readonly waiting: number
  /** What runs there goes on, nothing new comes. */
  readonly isLeaving: boolean
  /** Counts its reports. */
  readonly reports: number
}

/** What a place is chosen by. */
export interface RoutedRequest {
  readonly promptTokenIds: readonly number[]
  readonly adapterDigest: string | null
}

/** Tokens of a prompt that say where it is computed: about what a system prompt takes. */
const PREFIX_TOKENS = 256
/** How much more than the mean may wait where a prefix is known. */
const MOST_OF_MEAN = 1.25

/** Whether a node may see a request of `owner`. */
export function maySee(node: EngineNode, owner: RequestOwner | undefined): boolean {
  if (owner === undefined || node.owner.entity !== owner.entity) return false
  return node.owner.project === null || node.owner.project === owner.project
}

/**
 * The nodes in the order in which they are tried.
 *
 * @param waitingAt requests that wait at a node, as far as is known
 */
export function orderNodes(
  nodes: readonly EngineNode[],
  request: RoutedRequest,
  waitingAt: (node: EngineNode) => number,
): readonly EngineNode[] {
  if (nodes.length < 2) return nodes
  const waiting = new Map(nodes.map((node) => [node.id, waitingAt(node)]))
  const mean = [...waiting.values()].reduce((sum, count) => sum + count, 0) / nodes.length
  const key = placeKey(request)
  const ranked = nodes.map((node) => {
    const count = waiting.get(node.id) ?? 0
    return { node, count, isFree: count === 0 || count < MOST_OF_MEAN * mean, weight: weightOf(key, node.id) }
  })
  ranked.sort((a, b) => {
    if (a.isFree !== b.isFree) return a.isFree ? -1 : 1
    if (!a.isFree && a.count !== b.count) return a.count - b.count
    return a.weight < b.weight ? 1 : -1
  })
  return ranked.map(({ node }) => node)
}

function placeKey({ promptTokenIds, adapterDigest }: RoutedRequest): string {
  return `${adapterDigest ?? 'base'} ${promptTokenIds.slice(0, PREFIX_TOKENS).join()}`
}

/** Rendezvous hashing: a node that comes or goes moves only the requests that are its own. */
function weightOf(key: string, nodeId: string): string {
  return createHash('sha256').update(`${nodeId} ${key}`).digest('hex')
}
