/**
 * All engine hosts of a server: one per base model, started when first needed.
 */
import { type AppError, NotFoundError } from '#base/errors/errors.js'
import type { EngineNode, PongEvent } from '#inference/host/protocol.js'
import { createEngineProcess, type EngineProcess, type EngineProcessOptions } from './engine-process.js'

export interface EnginePool {
  /** The engine of a base model, started on first use. @throws {NotFoundError} `base_model_not_found` */
  engineOf(baseModel: string): EngineProcess
  /** Engines that were asked for so far. */
  started(): readonly EngineProcess[]
  /** What engines with a loaded model say of themselves; those that do not answer in time are left out. */
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

/** @param configure options of the engine of a base model; null for an unknown one */
export function createEnginePool(configure: (baseModel: string) => EngineProcessOptions | null): EnginePool {
  const engines = new Map<string, EngineProcess>()
  let pings = 0
  const nodesOf = new Map<string, readonly EngineNode[]>()
  let areCoresShared = false
  return {
    engineOf: (baseModel) => {
      const existing = engines.get(baseModel)
      if (existing !== undefined) return existing
      const options = configure(baseModel)
      if (options === null) {
        throw new NotFoundError('base_model_not_found', `base model "${baseModel}" is not served here`)
      }
      const engine = createEngineProcess(options)
      if (areCoresShared) engine.shareCores(true)
      engine.setNodes(nodesOf.get(baseModel) ?? [])
      engines.set(baseModel, engine)
      return engine
    },
    started: () => [...engines.values()],
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
      await engine?.stop(deadlineMs)
    },
    forgetAdapter: (digest) => {
      for (const engine of engines.values()) engine.forgetAdapter(digest)
    },
    shareCores: (isShared) => {
      areCoresShared = isShared
      for (const engine of engines.values()) engine.shareCores(isShared)
    },
    setNodes: (baseModel, nodes) => {
      nodesOf.set(baseModel, nodes)
      engines.get(baseModel)?.setNodes(nodes)
    },
    failRequests: (error) => {
      for (const engine of engines.values()) engine.failRequests(error)
    },
    stop: async (deadlineMs) => {
      await Promise.all([...engines.values()].map((engine) => engine.stop(deadlineMs)))
    },
  }
}
