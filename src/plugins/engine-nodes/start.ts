/**
 * What a service keeps of engine nodes: those that it knows, and where they may be.
 */
import type { PluginStart } from '#service/plugin.js'
import { createEngineNodeHosts } from './engine-node-hosts.js'
import type { EngineNodeRules } from './engine-nodes.js'
import { createKnownNodes, type KnownNodes } from './known-nodes.js'
import type { nodeSettings } from './settings.js'

/** Without a report for so long a node gets nothing more. */
const LEASE_MS = 15_000
/** How often a node reports. */
const REPORT_MS = 5000

/** What handlers work with. */
export interface StartedNodes {
  readonly nodes: KnownNodes
  readonly rules: EngineNodeRules
}

/** @throws {InvalidRequestError} `invalid_engine_node_host` */
export function startEngineNodes({
  context,
  lifetimes,
  tuning,
  settings,
  serviceSettings,
}: PluginStart<typeof nodeSettings>): StartedNodes {
  const { engines, remoteEngines, clock, lookUp } = context
  const { leaseMs = LEASE_MS, reportMs = REPORT_MS } = (tuning ?? {}) as Partial<EngineNodeRules>
  const hosts = createEngineNodeHosts(settings.engineNodeHosts, lookUp)
  const nodes = createKnownNodes({ clock, leaseMs, onChange: engines.setNodes })
  lifetimes.add('engine nodes', () => nodes.stop())
  remoteEngines.use({
    list: () => nodes.list().map(({ report }) => report),
    offer: nodes.offer,
    takesTenants: () => settings.engineNodeHosts.length > 0,
  })
  return { nodes, rules: { engines: serviceSettings.engines, leaseMs, reportMs, hosts } }
}
