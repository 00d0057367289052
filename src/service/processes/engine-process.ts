/**
 * One engine: what the service asks a base model's host, and how many may ask at once.
 *
 * A request waits for the model to be loaded, if there is room for one more. One in flight when the host dies fails with
 * `engine_restarting`, which says why it died; the next one waits for the new host (`engine-supervisor.ts`), unless that dies
 * again and again: then it is told when to come back.
 */
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { EngineNode, HostEvents, LoadedEvent, PongEvent, TextResult, TextTask } from '#inference/host/protocol.js'
import { createEngineCalls, type GenerateRequest, type GenerationEvent } from './engine-calls.js'
import { queueFull, unresponsive } from './engine-errors.js'
import { createEngineSupervisor, type EngineSupervisorOptions } from './engine-supervisor.js'

export type { AdapterRef, PromptPosition, SamplingParameters, TokenLogprob } from '#inference/host/protocol.js'
export type { GenerateRequest, GenerationEvent } from './engine-calls.js'

export interface EngineProcessOptions extends Omit<EngineSupervisorOptions, 'isWaitedFor' | 'onEvents' | 'onDeath'> {
  /** Requests that may be in flight or wait, also for the model to be loaded; beyond it `queue_full`. */
  readonly maxPendingRequests: number
  readonly observer?: EngineObserver
}

/** Hears what goes to a host and what comes back. */
export interface EngineObserver {
  requested(request: GenerateRequest): void
  /** What one step of the host said. */
  received(events: HostEvents): void
  /** The host is gone, with every request. */
  lost(): void
}

export interface EngineProcess {
  readonly baseModel: string
  /** Starts the host if it does not run. Resolves when the model is loaded; rejects with why it cannot be, or `queue_full`. */
  ready(): Promise<LoadedEvent>
  /** As `ready`, for nobody's request: it takes no place in the queue. */
  preload(): Promise<LoadedEvent>
  /** What `ready` resolved to, if it did. */
  loaded(): LoadedEvent | null
  /** Sends a request; ends after the last delta. Leaving the loop early, or `signal`, aborts it. */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<GenerationEvent>
  /** Renders, tokenizes or decodes with the model's own text side. @throws {AppError} as the host has it */
  text(id: string, task: TextTask): Promise<TextResult>
  /** @throws {AppError} `engine_unresponsive` if no answer comes in time */
  ping(id: string, timeoutMs: number): Promise<PongEvent>
  forgetAdapter(digest: string): void
  /** @param isShared whether a job computes on this machine: a large model's steps take fewer threads then */
  shareCores(isShared: boolean): void
  /** Which nodes may compute for it; without effect where the host computes itself. */
  setNodes(nodes: readonly EngineNode[]): void
  /** How many requests run or wait. */
  requestCount(): number
  /** Process id of the running host, for tests of its death. */
  pid(): number | null
  /** Fails every request that runs or waits with `error`. */
  failRequests(error: AppError): void
  /** Lets running requests finish until the deadline, then ends the process. */
  stop(deadlineMs: number): Promise<void>
}

export function createEngineProcess(options: EngineProcessOptions): EngineProcess {
  const { maxPendingRequests, observer } = options
  const { baseModel } = options.load
  /** Requests let in and not yet among the calls. */
  let arriving = 0
  /** Requests that wait for the model to be loaded, and how each is told to give up. */
  const loading = new Set<(error: AppError) => void>()
  const supervisor = createEngineSupervisor({
    ...options,
    isWaitedFor: () => loading.size > 0 || calls.isWaitedFor(),
    onEvents: (events) => {
      observer?.received(events)
      for (const event of events) calls.receive(event)
    },
    onDeath: (error) => {
      observer?.lost()
      calls.failAll(error)
    },
  })
  const calls = createEngineCalls((command) => supervisor.send(command))

  /**
   * Waits for the model, if there is room for one more request, and lets it in.
   *
   * @param enter puts it where it is counted from then on; in the same turn, so that the limit is met exactly
   */
  async function admit<T>(enter: (loaded: LoadedEvent) => T, signal?: AbortSignal): Promise<T> {
    if (calls.size() + arriving >= maxPendingRequests) throw queueFull(maxPendingRequests)
    arriving++
    try {
      await untilLoaded(signal)
      const loaded = supervisor.loaded()
      // it may have died between its answer and this line: then nobody would ever fail this request
      if (loaded === null) throw supervisor.gone()
      return enter(loaded)
    } finally {
      arriving--
    }
  }

  /** Starts the host if it does not run, and waits for its model. */
  async function untilLoaded(signal?: AbortSignal): Promise<void> {
    if (supervisor.loaded() !== null) return
    const gaveUp = createDeferred<never>()
    const onAbort = (): void =>
      gaveUp.reject(new AppError('cancelled', 'cancelled', 'the request was aborted before it started'))
    loading.add(gaveUp.reject)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await Promise.race([supervisor.start(), gaveUp.promise])
    } finally {
      loading.delete(gaveUp.reject)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  async function* generate(request: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    yield* await admit(() => {
      observer?.requested(request)
      return calls.generate(request, signal)
    }, signal)
  }

  return {
    baseModel,
    ready: async () => supervisor.loaded() ?? admit((loaded) => loaded),
    preload: () => supervisor.start(),
    loaded: () => supervisor.loaded(),
    generate,
    text: async (id, task) => {
      const { result } = await admit(() => ({ result: calls.text(id, task) }))
      return result
    },
    ping: async (id, timeoutMs) => {
      await untilLoaded()
      return calls.ping(id, { ms: timeoutMs, late: () => unresponsive(baseModel, timeoutMs) })
    },
    forgetAdapter: (digest) => supervisor.send({ type: 'forget_adapter', digest }),
    shareCores: (isShared) => supervisor.shareCores(isShared),
    setNodes: (nodes) => supervisor.setNodes(nodes),
    requestCount: () => calls.size() + arriving,
    pid: () => supervisor.pid(),
    failRequests: (error) => {
      for (const giveUp of loading) giveUp(error)
      calls.failRequests(error)
    },
    stop: (deadlineMs) => supervisor.stop(deadlineMs),
  }
}
