/**
 * The engine of a base model whose tokens are computed by engine nodes: the same interface, the same checks, another machine.
 *
 * Requests that no node may see are computed on this machine where settings allow it, by an engine that is loaded for the first
 * of them.
 */
import { AppError, shuttingDown } from '#base/errors/errors.js'
import { maxOf } from '#base/util/lists.js'
import type { Engine } from '../engine/engine.js'
import type { GenerationListener, GenerationRequest, RequestOwner } from '../engine/generation.js'
import { assertAdmissible } from '../engine/scheduling/admission.js'
import { type EngineNode, maySee, orderNodes } from './engine-node.js'
import { NodeCall } from './node-call.js'
import { noEngineNode } from './node-error.js'

export interface RoutedEngineOptions {
  readonly baseModel: string
  readonly contextLength: number
  readonly vocabularySize: number
  readonly eosTokenIds: readonly number[]
  /** Loads an engine of this machine; null: nodes alone compute. */
  readonly openLocal: (() => Promise<Engine>) | null
  /** How long a request waits for the first node. Default {@link NODE_WAIT_MS} */
  readonly nodeWaitMs?: number
}

export interface RoutedEngine extends Engine {
  /** All nodes that live; calls at one that is missing have lost it. */
  setNodes(nodes: readonly EngineNode[]): void
}

/** Nodes tell a server that was started anew of themselves within five seconds. */
export const NODE_WAIT_MS = 8000

export function createRoutedEngine(options: RoutedEngineOptions): RoutedEngine {
  return new Routing(options)
}

class Routing implements RoutedEngine {
  readonly contextLength: number
  readonly #options: RoutedEngineOptions
  readonly #eosTokenIds: ReadonlySet<number>
  readonly #calls = new Map<string, NodeCall>()
  /** Requests for which no node is there yet, and how each goes on when one is. */
  readonly #waiting = new Map<
    string,
    { readonly owner: RequestOwner | undefined; readonly go: () => void; readonly abort: () => void }
  >()
  /** Aborted while the engine of this machine was being loaded. */
  readonly #arriving = new Map<string, { isAborted: boolean }>()
  readonly #whenIdle: (() => void)[] = []
  /** Nodes that failed, and the report that was their last by then. */
  readonly #faults = new Map<string, number>()
  #nodes: readonly EngineNode[] = []
  #opening: Promise<Engine> | null = null
  #local: Engine | null = null
  #isShared = false
  #isClosed = false

  constructor(options: RoutedEngineOptions) {
    this.#options = options
    this.contextLength = options.contextLength
    this.#eosTokenIds = new Set(options.eosTokenIds)
  }

  get runningSequences(): number {
    const running = [...this.#calls.values()].filter((call) => call.isRunning)
    return running.reduce((sum, call) => sum + call.openChoices, this.#local?.runningSequences ?? 0)
  }

  get waitingRequests(): number {
    const queued = [...this.#calls.values()].filter((call) => !call.isRunning).length
    return queued + this.#waiting.size + this.#arriving.size + (this.#local?.waitingRequests ?? 0)
  }

  get kvCacheUsage(): number {
    return this.#local?.kvCacheUsage ?? 0
  }

  get preemptions(): number {
    return this.#local?.preemptions ?? 0
  }

  submit(request: GenerationRequest, listener: GenerationListener): void {
    if (this.#isClosed) throw shuttingDown()
    const candidates = this.#nodesOf(request.owner)
    if (candidates.length === 0 && this.#options.openLocal !== null) {
      this.#submitHere(request, listener, this.#options.openLocal)
      return
    }
    this.#assertAdmissible(request, candidates)
    if (candidates.length > 0) this.#send(request, listener)
    else this.#await(request, listener)
  }

  abort(id: string): void {
    this.#calls.get(id)?.abort()
    this.#waiting.get(id)?.abort()
    const arriving = this.#arriving.get(id)
    if (arriving !== undefined) arriving.isAborted = true
    this.#local?.abort(id)
  }

  forgetAdapter(digest: string): void {
    // nodes drop what is not asked for any more; a digest names the same bytes for good
    this.#local?.forgetAdapter(digest)
  }

  shareCores(isShared: boolean): void {
    this.#isShared = isShared
    this.#local?.shareCores(isShared)
  }

  setNodes(nodes: readonly EngineNode[]): void {
    this.#nodes = nodes
    const alive = new Set(nodes.map(({ id }) => id))
    for (const id of this.#faults.keys()) if (!alive.has(id)) this.#faults.delete(id)
    for (const call of [...this.#calls.values()]) {
      if (call.node !== null && !alive.has(call.node.id)) call.lose('was not heard of within its lease')
    }
    for (const { owner, go } of [...this.#waiting.values()]) if (this.#nodesOf(owner).length > 0) go()
  }

  idle(): Promise<void> {
    if (this.#isEmpty) return this.#local?.idle() ?? Promise.resolve()
    // asked then: what waits now may go to an engine here that is not loaded yet
    return new Promise((resolve) => this.#whenIdle.push(() => resolve(this.#local?.idle())))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const call of [...this.#calls.values()]) call.fail(shuttingDown())
    for (const { abort } of [...this.#waiting.values()]) abort()
    await this.#local?.close()
  }

  get #isEmpty(): boolean {
    return this.#calls.size + this.#waiting.size + this.#arriving.size === 0
  }

  #nodesOf(owner: RequestOwner | undefined): readonly EngineNode[] {
    return this.#nodes.filter((node) => !node.isLeaving && maySee(node, owner))
  }

  /** @throws {InvalidRequestError} as an engine of this machine has it, for the context of the node that takes most */
  #assertAdmissible(request: GenerationRequest, nodes: readonly EngineNode[]): void {
    const most = nodes.length === 0 ? this.contextLength : maxOf(nodes.map((node) => node.contextLength))
    const { vocabularySize } = this.#options
    const contextLength = Math.min(this.contextLength, most)
    assertAdmissible(request, { contextLength, vocabularySize, maxWaiting: Number.POSITIVE_INFINITY })
  }

  #send(request: GenerationRequest, listener: GenerationListener): void {
    const call = new NodeCall(request, listener, {
      contextLength: this.contextLength,
      vocabularySize: this.#options.vocabularySize,
      eosTokenIds: this.#eosTokenIds,
      baseModel: this.#options.baseModel,
      nextNode: (tried) => this.#nextNode(request, tried),
      onFault: ({ id, reports }) => this.#faults.set(id, reports),
      onEnd: () => {
        this.#calls.delete(request.id)
        this.#noteIdle()
      },
    })
    this.#calls.set(request.id, call)
    // listeners hear nothing before `submit` has returned
    setImmediate(() => call.start())
  }

  #nextNode(request: GenerationRequest, tried: ReadonlySet<string>): EngineNode | null {
    const needed = request.promptTokenIds.length + (request.rules.maxTokens ?? 1)
    const untried = this.#nodesOf(request.owner).filter((node) => !tried.has(node.id) && node.contextLength >= needed)
    // one that failed and has not said anything since is a last resort
    const isSound = ({ id, reports }: EngineNode): boolean => (this.#faults.get(id) ?? -1) < reports
    const sound = untried.filter(isSound)
    const candidates = sound.length > 0 ? sound : untried
    const routed = { promptTokenIds: request.promptTokenIds, adapterDigest: request.adapter?.digest ?? null }
    return orderNodes(candidates, routed, (node) => this.#waitingAt(node))[0] ?? null
  }

  /** What it said itself, or what was sent to it since and cannot have a place. */
  #waitingAt(node: EngineNode): number {
    let sent = 0
    for (const call of this.#calls.values()) if (call.node?.id === node.id) sent += call.openChoices
    return Math.max(node.waiting, sent - node.slots, 0)
  }

  #await(request: GenerationRequest, listener: GenerationListener): void {
    const { id, owner } = request
    const leave = (): void => {
      clearTimeout(timer)
      this.#waiting.delete(id)
    }
    const timer = setTimeout(() => {
      leave()
      listener.onFailed(noEngineNode(this.#options.baseModel))
      this.#noteIdle()
    }, this.#options.nodeWaitMs ?? NODE_WAIT_MS)
    const go = (): void => {
      leave()
      this.#send(request, listener)
    }
    const abort = (): void => {
      leave()
      for (let choice = 0; choice < request.rules.n; choice++) listener.onAborted(choice)
      listener.onFinished()
      this.#noteIdle()
    }
    this.#waiting.set(id, { owner, go, abort })
  }

  #submitHere(request: GenerationRequest, listener: GenerationListener, open: () => Promise<Engine>): void {
    if (this.#local !== null) {
      this.#local.submit(request, listener)
      return
    }
    const arriving = { isAborted: false }
    this.#arriving.set(request.id, arriving)
    this.#openLocal(open)
      .then((engine) => {
        engine.submit(request, listener)
        if (arriving.isAborted) engine.abort(request.id)
      })
      .catch((error: unknown) => {
        const unexpected = (): AppError =>
          new AppError('internal', 'engine_failed', 'the engine could not be loaded', { cause: error })
        listener.onFailed(error instanceof AppError ? error : unexpected())
      })
      .finally(() => {
        this.#arriving.delete(request.id)
        this.#noteIdle()
      })
  }

  #openLocal(open: () => Promise<Engine>): Promise<Engine> {
    this.#opening ??= open().then(
      (engine) => {
        this.#local = engine
        engine.shareCores(this.#isShared)
        return engine
      },
      (error: unknown) => {
        // tried anew by the next request
        this.#opening = null
        throw error
      },
    )
    return this.#opening
  }

  #noteIdle(): void {
    if (this.#isEmpty) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }
}
