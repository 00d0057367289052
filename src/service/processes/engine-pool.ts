/**
 * All engine hosts of a server: one per base model, started when first needed.
 *
 * What nodes of tenants answer is read in hosts of their own, one per base model and entity: whatever such a node sends costs its
 * entity's host and nobody else's. Those hosts compute nothing themselves.
 */
import { type AppError, NotFoundError } from '#base/errors/errors.js'
import type { EngineNode, PongEvent, RequestOwner } from '#inference/host/protocol.js'
import { createEngineProcess, type EngineProcess, type EngineProcessOptions } from './engine-process.js'

export interface EnginePool {
  /**
   * The engine of a base model, started on first use.
   *
   * @param owner whose request it is: where nodes of its entity compute, their host
   * @throws {NotFoundError} `base_model_not_found`
   */
  engineOf(baseModel: string, owner?: RequestOwner): EngineProcess
  /** The server's own engines that were asked for so far: what they say is true for everybody. */
  started(): readonly EngineProcess[]
  /** Those, and hosts of tenants' nodes. */
  all(): readonly EngineProcess[]
  /** What engines with a loaded model say of themselves; those that do not answer in time, and hosts of tenants' nodes, are left out. */
  ask(timeoutMs: number): Promise<readonly { readonly baseModel: string; readonly pong: PongEvent }[]>
  /** Ends the engine of a base model that is no longer served. */
  remove(baseModel: string, deadlineMs: number): Promise<void>
  /** Tells every engine to drop an adapter. */
  forgetAdapter(digest: string): void
  /** Tells every engine, also later ones, whether a job computes on this machine. */
  shareCores(isShared: boolean): void
  /** Tells the engine of a base model, also a later one, which nodes may compute for it. */
  setNodes(baseModel: string, nodes: readonly EngineNode[]): void
  /** Fails every request of every engine with `error`. */
  failRequests(error: AppError): void
  stop(deadlineMs: number): Promise<void>
}

export interface EnginePoolOptions {
  /** Options of the engine of a base model; null for an unknown one. @param isTenants nodes of an entity compute, and nothing else */
  readonly configure: (baseModel: string, isTenants: boolean) => EngineProcessOptions | null
  /** Whether requests of the owner wait for its own nodes, and nobody else's. */
  readonly hasOwnNodes: (owner: RequestOwner) => boolean
}

/** What nodes that are not the operator's have of a base model and an entity. */
interface TenantHost {
  readonly baseModel: string
  readonly entity: string
  nodes: readonly EngineNode[]
  engine: EngineProcess | null
}

/** What a host of an entity may take to end whose nodes are gone. */
const TENANT_END_MS = 1000

export function createEnginePool({ configure, hasOwnNodes }: EnginePoolOptions): EnginePool {
  const engines = new Map<string, EngineProcess>()
  let pings = 0
  const nodesOf = new Map<string, readonly EngineNode[]>()
  const tenants = new Map<string, TenantHost>()
  let areCoresShared = false

  function open(baseModel: string, isTenants: boolean, nodes: readonly EngineNode[]): EngineProcess {
    const options = configure(baseModel, isTenants)
    if (options === null) {
      throw new NotFoundError('base_model_not_found', `base model "${baseModel}" is not served here`)
    }
    const engine = createEngineProcess(options)
    if (areCoresShared) engine.shareCores(true)
    engine.setNodes(nodes)
    return engine
  }

  function tenantOf(baseModel: string, entity: string): TenantHost {
    const key = JSON.stringify([baseModel, entity])
    const tenant = tenants.get(key) ?? { baseModel, entity, nodes: [], engine: null }
    tenants.set(key, tenant)
    return tenant
  }

  /** The entity's host, where nodes of its own may see the request. */
  function tenantEngine(baseModel: string, owner: RequestOwner): EngineProcess | null {
    const known = tenants.get(JSON.stringify([baseModel, owner.entity]))
    const isSeen = known?.nodes.some(({ owner: { project } }) => project === null || project === owner.project) ?? false
    if (!isSeen && !hasOwnNodes(owner)) return null
    const tenant = known ?? tenantOf(baseModel, owner.entity)
    tenant.engine ??= open(baseModel, true, tenant.nodes)
    return tenant.engine
  }

  function setTenantNodes(baseModel: string, nodes: readonly EngineNode[]): void {
    for (const { owner } of nodes) tenantOf(baseModel, owner.entity)
    for (const [key, tenant] of tenants) {
      if (tenant.baseModel !== baseModel) continue
      const own = nodes.filter(({ owner }) => owner.entity === tenant.entity)
      const areGone = own.length === 0 && tenant.nodes.length > 0
      tenant.nodes = own
      tenant.engine?.setNodes(own)
      if (!areGone) continue
      tenants.delete(key)
      void tenant.engine?.stop(TENANT_END_MS)
    }
  }

  const all = (): readonly EngineProcess[] => [...engines.values(), ...ownEngines(tenants.values())]

  return {
    engineOf: (baseModel, owner) => {
      const own = owner === undefined ? null : tenantEngine(baseModel, owner)
      if (own !== null) return own
      const engine = engines.get(baseModel) ?? open(baseModel, false, nodesOf.get(baseModel) ?? [])
      engines.set(baseModel, engine)
      return engine
    },
    started: () => [...engines.values()],
    all,
    ask: async (timeoutMs) => {
      const loaded = [...engines.values()].filter((engine) => engine.loaded() !== null)
      const answers = loaded.map(async (engine) => ({
        baseModel: engine.baseModel,
        pong: await engine.ping(`ask-${pings++}`, timeoutMs),
      }))
      return (await Promise.allSettled(answers)).flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    },
    remove: async (baseModel, deadlineMs) => {
      const engine = engines.get(baseModel)
      engines.delete(baseModel)
      const own = [...tenants].filter(([, tenant]) => tenant.baseModel === baseModel)
      for (const [key] of own) tenants.delete(key)
      await Promise.all([engine?.stop(deadlineMs), ...own.map(([, tenant]) => tenant.engine?.stop(deadlineMs))])
    },
    forgetAdapter: (digest) => {
      for (const engine of all()) engine.forgetAdapter(digest)
    },
    shareCores: (isShared) => {
      areCoresShared = isShared
      for (const engine of all()) engine.shareCores(isShared)
    },
    setNodes: (baseModel, nodes) => {
      const operators = nodes.filter(({ isOperators }) => isOperators)
      nodesOf.set(baseModel, operators)
      engines.get(baseModel)?.setNodes(operators)
      setTenantNodes(
        baseModel,
        nodes.filter(({ isOperators }) => !isOperators),
      )
    },
    failRequests: (error) => {
      for (const engine of all()) engine.failRequests(error)
    },
    stop: async (deadlineMs) => void (await Promise.all(all().map((engine) => engine.stop(deadlineMs)))),
  }
}

function ownEngines(tenants: Iterable<TenantHost>): readonly EngineProcess[] {
  return [...tenants].flatMap(({ engine }) => engine ?? [])
}
