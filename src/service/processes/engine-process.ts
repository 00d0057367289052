/**
 * One engine host: starts the child process, sends it commands, routes its events to the requests they belong to, and
 * starts it again when it dies or freezes.
 *
 * Knows the IPC messages (`inference/host/protocol.ts`) and nothing of HTTP, models or adapters. A request in flight when the
 * host dies fails with `engine_restarting`, which says why it died; the next one waits for the new process, unless the
 * host dies again and again: then it is told when to come back.
 */
import type { ChildProcess } from 'node:child_process'
import { readEnvironment } from '#base/environment.js'
import { fromErrorMessage } from '#base/errors/error-message.js'
import { AppError, shuttingDown } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { startChild } from '#base/processes/child.js'
import { withHugePages } from '#base/processes/huge-pages.js'
import { createWatchdog } from '#base/processes/watchdog.js'
import { type AsyncQueue, createAsyncQueue } from '#base/util/async-queue.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred, type Deferred } from '#base/util/deferred.js'
import type {
  DeltaEvent,
  GenerateOptions,
  HostCommand,
  HostEvent,
  HostEvents,
  LoadCommand,
  LoadedEvent,
  PongEvent,
  PromptEvent,
  PromptInput,
  StartedEvent,
  TextResult,
  TextTask,
  ThreadsEvent,
} from '#inference/host/protocol.js'
import { keepsDying, LOAD_RETRY_MS, loadFailed, queueFull, restarting, unresponsive } from './engine-errors.js'

export interface EngineProcessOptions {
  readonly load: Omit<LoadCommand, 'type'>
  readonly logger: Logger
  readonly clock: Clock
  /** Module the child runs. Default: the built engine host. */
  readonly entryPath?: string
  /** Requests that may be in flight or wait, also for the model to be loaded; beyond it `queue_full`. */
  readonly maxPendingRequests: number
  readonly observer?: EngineObserver
  /** When a silent host counts as frozen. Defaults: 20 s without a sign of life, 10 minutes of computing in silence. */
  readonly watchdog?: { readonly frozenMs?: number; readonly stuckMs?: number; readonly tickMs?: number }
}

export type GenerationEvent = StartedEvent | PromptEvent | DeltaEvent
export type GenerateRequest = GenerateOptions & PromptInput

/** Hears what goes to a host and what comes back. */
export interface EngineObserver {
  requested(request: GenerateRequest): void
  /** What one step of the host said. */
  received(events: readonly HostEvent[]): void
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
  /** Process id of the running host, for tests of its death. */
  pid(): number | null
  /** Fails every request that runs or waits with `error`. */
  failRequests(error: AppError): void
  /** Lets running requests finish until the deadline, then ends the process. */
  stop(deadlineMs: number): Promise<void>
}

/**
 * V8 flags of an engine host: one thread for collecting garbage and compiling code in the background. By default there are four, no
 * less urgent than the model's own, and a thread that only begins (a first long text, a first grammar) sets them all to work.
 *
 * And no full collection before there are 256 MB to look after: V8 counts what a step returns, megabytes in arrays of their own,
 * against a heap of ten, and marked all of it every third step of 16 streams; scavenging is enough for them.
 */
const ENGINE_FLAGS = ['--v8-pool-size=1', '--initial-old-space-size=256']

interface Pending {
  readonly queue: AsyncQueue<GenerationEvent>
  isAborted: boolean
}

interface Running {
  readonly child: ChildProcess
  readonly loaded: Promise<LoadedEvent>
  readonly exited: Promise<void>
}

/** How a host ended. */
interface Ending {
  readonly livedMs: number
  /** It could not load its model, and was ended by this process for that. */
  readonly isUnloadable: boolean
}

const MAX_BACKOFF_MS = 30_000
/** A host that lived this long starts with a clean record. */
const STABLE_AFTER_MS = 60_000
const FROZEN_MS = 20_000
const STUCK_MS = 600_000
/** Id of the watchdog's own pings. */
const WATCHDOG_PING = 'watchdog'

export function createEngineProcess(options: EngineProcessOptions): EngineProcess {
  const { logger, clock, load } = options
  const maxPending = options.maxPendingRequests
  const pending = new Map<string, Pending>()
  const pings = new Map<string, { resolve: (pong: PongEvent) => void; reject: (error: AppError) => void }>()
  const texts = new Map<string, Deferred<TextResult>>()
  /** Requests let in and not yet among the above. */
  let arriving = 0
  let running: Running | null = null
  let loadedEvent: LoadedEvent | null = null
  let isStopped = false
  let areCoresShared = false
  let failures = 0
  /** Why the host died the last time. */
  let lastDeath = ''
  /** Requests that wait for the model to be loaded, and how each is told to give up. */
  const loading = new Set<(error: AppError) => void>()
  let notBeforeMs = 0
  /** Why the model could not be loaded the last time; null once it was. */
  let loadFailure: AppError | null = null

  function start(): Running {
    if (running !== null) return running
    if (isStopped) throw shuttingDown()
    const waitMs = notBeforeMs - clock.monotonicMs()
    if (waitMs > 0) throw loadFailure ?? keepsDying(load.baseModel, failures, { reason: lastDeath, waitMs })
    const child = startChild(options.entryPath ?? 'inference/host/main.js', {
      environment: withHugePages(readEnvironment()),
      flags: ENGINE_FLAGS,
      serialization: 'advanced',
    })
    const startedMs = clock.monotonicMs()
    const { promise: loaded, resolve, reject } = createDeferred<LoadedEvent>()
    // a load that fails before anybody waits for it is reported to the next request
    loaded.catch(() => undefined)
    let frozen: string | null = null
    let isUnloadable = false
    const watchdog = createWatchdog(child.pid ?? 0, {
      frozenMs: FROZEN_MS,
      stuckMs: STUCK_MS,
      ...options.watchdog,
      isWaitedFor: () => pending.size + loading.size + pings.size + texts.size > 0,
      ping: () => send({ type: 'ping', id: WATCHDOG_PING }),
      onFrozen: (reason) => {
        frozen = reason
        logger.error({ base_model: load.baseModel, reason, pid: child.pid }, 'engine.frozen')
        child.kill('SIGKILL')
      },
    })
    const receive = (event: HostEvent): void => {
      if (event.type === 'loaded') {
        loadedEvent = event
        loadFailure = null
        logger.info({ base_model: load.baseModel, load_ms: event.loadMs, ...servingFacts(event) }, 'engine.loaded')
        resolve(event)
      } else if (event.type === 'failed' && event.id === null) {
        logger.error({ base_model: load.baseModel, error: event.error }, 'engine.load_failed')
        loadFailure = loadFailed(load.baseModel, event)
        isUnloadable = true
        reject(loadFailure)
        child.kill('SIGKILL')
      } else if (event.type === 'threads') noteThreads(event)
      else route(event)
    }
    child.on('message', (events: HostEvents) => {
      watchdog.heard()
      options.observer?.received(events)
      events.forEach(receive)
    })
    const exited = new Promise<void>((settle) => {
      const onEnd = (reason: string): void => {
        if (running?.child !== child) return
        watchdog.stop()
        running = null
        loadedEvent = null
        lastDeath = isUnloadable ? 'could not load its model' : (frozen ?? reason)
        reject(restarting(load.baseModel, lastDeath))
        onDeath(lastDeath, { livedMs: clock.monotonicMs() - startedMs, isUnloadable })
        settle()
      }
      child.once('exit', (code, signal) =>
        onEnd(signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`),
      )
      child.once('error', (error) => onEnd(error.message))
    })
    running = { child, loaded, exited }
    send({ type: 'load', ...load })
    if (areCoresShared) send({ type: 'share_cores', isShared: true })
    return running
  }

  function noteThreads({ threads, heldUpMs, error }: ThreadsEvent): void {
    const facts = { base_model: load.baseModel, threads: threads ?? 'all', held_up_ms: Math.round(heldUpMs) }
    if (error === null) logger.info(facts, 'engine.threads')
    else logger.warn({ ...facts, reason: error.message }, 'engine.threads_unchanged')
  }

  function onDeath(reason: string, { livedMs, isUnloadable }: Ending): void {
    const error = restarting(load.baseModel, reason)
    options.observer?.lost()
    for (const request of pending.values()) request.queue.fail(error)
    pending.clear()
    for (const ping of pings.values()) ping.reject(error)
    pings.clear()
    for (const text of texts.values()) text.reject(error)
    texts.clear()
    if (isStopped) return
    failures = livedMs > STABLE_AFTER_MS ? 0 : failures + 1
    // the first restart is immediate; a host that keeps dying is started less and less often
    const backoffMs = failures <= 1 ? 0 : Math.min(MAX_BACKOFF_MS, 500 * 2 ** (failures - 2))
    notBeforeMs = clock.monotonicMs() + backoffMs
    // `engine.load_failed` has said why; the signal was this process's own and would read as running out of memory
    if (!isUnloadable) {
      logger.error(
        { base_model: load.baseModel, reason, lived_ms: Math.round(livedMs), deaths: failures, backoff_ms: backoffMs },
        'engine.died',
      )
    }
    if (loadFailure !== null) notBeforeMs = clock.monotonicMs() + Math.min(Math.max(backoffMs, 1000), LOAD_RETRY_MS)
    else if (failures <= 1) start()
  }

  function send(command: HostCommand): void {
    const child = running?.child
    if (child?.connected !== true) return
    // a failed send means the host is dying: its exit event rejects what is pending
    child.send(command, () => undefined)
  }

  function route(event: HostEvent): void {
    if (event.type === 'loaded' || event.type === 'threads') return
    if (event.type === 'pong') {
      pings.get(event.id)?.resolve(event)
      pings.delete(event.id)
      return
    }
    if (event.id === null) return
    const text = texts.get(event.id)
    if (text !== undefined) {
      texts.delete(event.id)
      if (event.type === 'text') text.resolve(event.result)
      else if (event.type === 'failed') text.reject(fromErrorMessage(event.error))
      return
    }
    if (event.type === 'text') return
    const request = pending.get(event.id)
    if (request === undefined) return
    if (event.type === 'finished') {
      pending.delete(event.id)
      request.queue.end()
    } else if (event.type === 'failed') {
      pending.delete(event.id)
      request.queue.fail(fromErrorMessage(event.error))
    } else request.queue.push(event)
  }

  function abort(id: string): void {
    const request = pending.get(id)
    if (request === undefined || request.isAborted) return
    request.isAborted = true
    send({ type: 'abort', id })
  }

  /**
   * Waits for the model, if there is room for one more request, and lets it in.
   *
   * @param enter puts it where it is counted from then on; in the same turn, so that the limit is met exactly
   */
  async function admit<T>(enter: (loaded: LoadedEvent) => T, signal?: AbortSignal): Promise<T> {
    if (pending.size + texts.size + arriving >= maxPending) {
      throw queueFull(maxPending)
    }
    arriving++
    try {
      await untilLoaded(signal)
      // it may have died between its answer and this line: then nobody would ever fail this request
      if (loadedEvent === null) throw restarting(load.baseModel, lastDeath)
      return enter(loadedEvent)
    } finally {
      arriving--
    }
  }

  async function* generate(command: GenerateRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    const onAbort = (): void => abort(command.id)
    const queue = createAsyncQueue<GenerationEvent>(onAbort)
    await admit(() => pending.set(command.id, { queue, isAborted: false }), signal)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      options.observer?.requested(command)
      send({ type: 'generate', ...command })
      if (signal.aborted) onAbort()
      yield* queue
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  async function text(id: string, task: TextTask): Promise<TextResult> {
    const deferred = createDeferred<TextResult>()
    await admit(() => texts.set(id, deferred))
    send({ type: 'text', id, task })
    return deferred.promise
  }

  /** Starts the host if it does not run, and waits for its model. */
  async function untilLoaded(signal?: AbortSignal): Promise<void> {
    if (loadedEvent !== null) return
    const gaveUp = createDeferred<never>()
    const onAbort = (): void =>
      gaveUp.reject(new AppError('cancelled', 'cancelled', 'the request was aborted before it started'))
    loading.add(gaveUp.reject)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      await Promise.race([start().loaded, gaveUp.promise])
    } finally {
      loading.delete(gaveUp.reject)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  function failRequests(error: AppError): void {
    for (const giveUp of loading) giveUp(error)
    for (const [id, request] of pending) {
      send({ type: 'abort', id })
      request.queue.fail(error)
    }
    pending.clear()
    for (const text of texts.values()) text.reject(error)
    texts.clear()
  }

  async function ready(): Promise<LoadedEvent> {
    return loadedEvent ?? admit((loaded) => loaded)
  }

  return {
    baseModel: load.baseModel,
    ready,
    preload: () => start().loaded,
    generate,
    text,
    failRequests,
    loaded: () => loadedEvent,
    pid: () => running?.child.pid ?? null,
    forgetAdapter: (digest) => send({ type: 'forget_adapter', digest }),
    shareCores: (isShared) => {
      areCoresShared = isShared
      send({ type: 'share_cores', isShared })
    },
    ping: async (id, timeoutMs) => {
      await untilLoaded()
      const { promise, resolve, reject } = createDeferred<PongEvent>()
      const timer = setTimeout(() => reject(unresponsive(load.baseModel, timeoutMs)), timeoutMs)
      pings.set(id, { resolve, reject })
      send({ type: 'ping', id })
      return promise.finally(() => {
        clearTimeout(timer)
        pings.delete(id)
      })
    },
    stop: async (deadlineMs) => {
      isStopped = true
      const current = running
      if (current === null) return
      send({ type: 'shutdown', deadlineMs })
      const timer = setTimeout(() => current.child.kill('SIGKILL'), deadlineMs + 500)
      await current.exited
      clearTimeout(timer)
    },
  }
}

function servingFacts(loaded: LoadedEvent): Record<string, unknown> {
  const { precision, precisionReason, int8Speedup, threads, threadsBesideJob } = loaded
  const measured = int8Speedup == null ? {} : { int8_speedup: Number(int8Speedup.toFixed(2)) }
  const beside = threadsBesideJob == null ? {} : { threads_beside_job: threadsBesideJob }
  return { precision, precision_from: precisionReason ?? 'setting', ...measured, threads: threads ?? 'all', ...beside }
}
