/**
 * Engine nodes that a server knows: who was heard of within the lease, what each said last, and which adapters they may fetch.
 *
 * Kept in memory: after a start of the server the nodes say again that they are there. Knows neither HTTP nor the database.
 */
import type { Clock } from '#base/util/clock.js'
import type { EngineNodeReport } from '#contract/processes/engine-node.js'
import type { AdapterRef, EngineNode, RequestOwner } from '#inference/host/protocol.js'
import type { GenerateRequest } from '#service/processes/engine-calls.js'

/** A node, whose it is, and how it is reached. */
export interface KnownNode {
  readonly report: EngineNodeReport
  readonly owner: RequestOwner
  readonly place: NodePlace
}

/** As `EngineNode` has it. */
export type NodePlace = Pick<EngineNode, 'address' | 'isOperators'>

/** An adapter that nodes were asked to serve. */
export interface OfferedAdapter {
  readonly adapter: AdapterRef
  readonly owner: RequestOwner
}

export interface KnownNodes {
  /** The node with this id, if it is known. */
  get(id: string): KnownNode | null
  /** It was heard of. */
  note(node: KnownNode): void
  list(): readonly KnownNode[]
  /** A request goes to an engine: its adapter may be fetched by nodes from now on. */
  offer(request: Pick<GenerateRequest, 'adapter' | 'owner'>): void
  /** Null: no node was asked for it lately. */
  offered(digest: string, owner: RequestOwner): AdapterRef | null
  stop(): void
}

interface KnownNodesOptions {
  readonly clock: Clock
  readonly leaseMs: number
  /** Called with all nodes of a base model when something of them changed. */
  readonly onChange: (baseModel: string, nodes: readonly EngineNode[]) => void
}

/** Adapters that are remembered for nodes to fetch. */
const MAX_OFFERED = 4096

interface Entry extends KnownNode {
  readonly heardMs: number
  readonly reports: number
}

export function createKnownNodes({ clock, leaseMs, onChange }: KnownNodesOptions): KnownNodes {
  const nodes = new Map<string, Entry>()
  /** The one asked for last stands last. */
  const offers = new Map<string, OfferedAdapter>()
  const timer = setInterval(expire, Math.min(1000, leaseMs / 4))
  timer.unref()

  function expire(): void {
    const changed = new Set<string>()
    for (const [id, { heardMs, report }] of nodes) {
      if (clock.monotonicMs() - heardMs < leaseMs) continue
      nodes.delete(id)
      changed.add(report.base_model.name)
    }
    for (const baseModel of changed) tell(baseModel)
  }

  function tell(baseModel: string): void {
    const all = [...nodes.values()].filter(({ report }) => report.base_model.name === baseModel)
    onChange(baseModel, all.map(toEngineNode))
  }

  return {
    get: (id) => nodes.get(id) ?? null,
    note: ({ report, owner, place }) => {
      const before = nodes.get(report.id)
      // one that was started anew at the same address is the only one there
      const changed = new Set([report.base_model.name])
      for (const [id, other] of nodes) {
        if (id === report.id || other.report.url !== report.url) continue
        nodes.delete(id)
        changed.add(other.report.base_model.name)
      }
      nodes.set(report.id, {
        ...{ report, owner, place },
        heardMs: clock.monotonicMs(),
        reports: (before?.reports ?? 0) + 1,
      })
      for (const baseModel of changed) tell(baseModel)
    },
    list: () => [...nodes.values()],
    offer: ({ adapter, owner }) => {
      // kept before there is a node: the request waits for the first one
      if (adapter === null || owner === undefined) return
      const key = offerKey(adapter.digest, owner)
      offers.delete(key)
      offers.set(key, { adapter, owner })
      const [oldest] = offers.keys()
      if (offers.size > MAX_OFFERED && oldest !== undefined) offers.delete(oldest)
    },
    offered: (digest, owner) => {
      // a key of the whole entity sees all of its projects
      for (const { adapter, owner: other } of offers.values()) {
        const isSeen = other.entity === owner.entity && (owner.project === null || owner.project === other.project)
        if (adapter.digest === digest && isSeen) return adapter
      }
      return null
    },
    stop: () => clearInterval(timer),
  }
}

const offerKey = (digest: string, { entity, project }: RequestOwner): string =>
  JSON.stringify([digest, entity, project])

function toEngineNode({ report, owner, place, reports }: Entry): EngineNode {
  return {
    id: report.id,
    name: report.name,
    url: report.url,
    token: report.token,
    ...place,
    engine: report.engine,
    owner,
    contextLength: report.context_length,
    slots: report.slots,
    waiting: report.waiting,
    isLeaving: report.is_leaving,
    reports,
  }
}
