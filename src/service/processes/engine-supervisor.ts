/**
 * Keeps one engine host alive: starts it, has it load its model, watches it, and starts it again when it dies or freezes, less and
 * less often if it dies again and again. One that has grown is replaced while nobody waits.
 *
 * Knows nothing of requests: it is told whether anybody waits, and tells what came and when the host is gone.
 */
import type { AppError } from '#base/errors/errors.js'
import { shuttingDown } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { nudgeThreadPool } from '#base/processes/nudge-thread-pool.js'
import { createWatchdog } from '#base/processes/watchdog.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import type {
  EngineNode,
  FailedEvent,
  HostCommand,
  HostEvent,
  HostEvents,
  LoadCommand,
  LoadedEvent,
  ThreadsEvent,
  WornEvent,
} from '#inference/host/protocol.js'
import { keepsDying, LOAD_RETRY_MS, loadFailed, restarting } from './engine-errors.js'
import type { EngineLink, OpenEngineLink } from './engine-link.js'

export interface EngineSupervisorOptions {
  readonly load: Omit<LoadCommand, 'type'>
  readonly open: OpenEngineLink
  readonly logger: Logger
  readonly clock: Clock
  /** When a silent host counts as frozen. Defaults: 20 s without a sign of life, 10 minutes of computing in silence. */
  readonly watchdog?: { readonly frozenMs?: number; readonly stuckMs?: number; readonly tickMs?: number } | undefined
  /** A host that nobody waits for is not asked for signs of life. */
  readonly isWaitedFor: () => boolean
  /** What one step of the host said. */
  readonly onEvents: (events: HostEvents) => void
  /** The host is gone, with all that it was asked; a new one is not started yet. @param error what it says to whom it was asked by */
  readonly onDeath: (error: AppError) => void
}

export interface EngineSupervisor {
  /** Starts the host if it does not run. Resolves when the model is loaded. @throws {AppError} why it cannot be, or not yet */
  start(): Promise<LoadedEvent>
  /** What `start` resolved to, of the host that runs. */
  loaded(): LoadedEvent | null
  /** Sends to the host that runs; without one the command is dropped. */
  send(command: HostCommand): void
  /** What somebody is told who finds that the host has just died. */
  gone(): AppError
  /** Tells this host and those after it whether a job computes on this machine. */
  shareCores(isShared: boolean): void
  /** Tells this host and those after it which nodes may compute for it. */
  setNodes(nodes: readonly EngineNode[]): void
  /** Process id of the running host. */
  pid(): number | null
  /** Lets running requests finish until the deadline, then ends the host for good. */
  stop(deadlineMs: number): Promise<void>
}

/** The host that runs. */
interface Running {
  readonly link: EngineLink
  readonly loaded: Promise<LoadedEvent>
  readonly exited: Promise<void>
}

/** How a host ended. */
interface Ending {
  readonly reason: string
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
/** What a host may take to end behind its own deadline. */
const EXIT_MS = 500

export function createEngineSupervisor(options: EngineSupervisorOptions): EngineSupervisor {
  return new HostSupervisor(options)
}

class HostSupervisor implements EngineSupervisor {
  readonly #options: EngineSupervisorOptions
  readonly #baseModel: string
  #running: Running | null = null
  #loadedEvent: LoadedEvent | null = null
  #isStopped = false
  #areCoresShared = false
  #nodes: readonly EngineNode[] = []
  #deaths = 0
  /** Why the host died the last time. */
  #lastDeath = ''
  #notBeforeMs = 0
  /** Why the model could not be loaded the last time; null once it was. */
  #loadFailure: AppError | null = null

  constructor(options: EngineSupervisorOptions) {
    this.#options = options
    this.#baseModel = options.load.baseModel
  }

  async start(): Promise<LoadedEvent> {
    return this.#start().loaded
  }

  loaded(): LoadedEvent | null {
    return this.#loadedEvent
  }

  send(command: HostCommand): void {
    this.#running?.link.send(command)
  }

  gone(): AppError {
    return restarting(this.#baseModel, this.#lastDeath)
  }

  shareCores(isShared: boolean): void {
    this.#areCoresShared = isShared
    this.send({ type: 'share_cores', isShared })
  }

  setNodes(all: readonly EngineNode[]): void {
    if (this.#nodes.length === 0 && all.length === 0) return
    this.#nodes = all
    this.send({ type: 'engine_nodes', nodes: this.#nodes })
  }

  pid(): number | null {
    return this.#running?.link.pid ?? null
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#isStopped = true
    const current = this.#running
    if (current === null) return
    this.send({ type: 'shutdown', deadlineMs })
    const timer = setTimeout(() => current.link.kill(), deadlineMs + EXIT_MS)
    await current.exited
    clearTimeout(timer)
  }

  #start(): Running {
    if (this.#running !== null) return this.#running
    if (this.#isStopped) throw shuttingDown()
    const waitMs = this.#notBeforeMs - this.#options.clock.monotonicMs()
    if (waitMs > 0)
      throw this.#loadFailure ?? keepsDying(this.#baseModel, this.#deaths, { reason: this.#lastDeath, waitMs })
    const startedMs = this.#options.clock.monotonicMs()
    const loaded = createDeferred<LoadedEvent>()
    const exited = createDeferred<void>()
    // a load that fails before anybody waits for it is reported to the next request
    loaded.promise.catch(() => undefined)
    /** Why it ends, where its own end does not say so. */
    let cause: string | null = null
    let isUnloadable = false
    let isReplaced = false

    /** Whoever asks from this turn on waits for the new host, as for the first one. */
    const replace = ({ residentBytes, loadedBytes }: WornEvent): void => {
      if (this.#isStopped || this.#options.isWaitedFor()) return
      this.#options.logger.info(
        { base_model: this.#baseModel, resident_bytes: residentBytes, loaded_bytes: loadedBytes },
        'engine.renewed',
      )
      isReplaced = true
      watchdog.stop()
      this.#running = null
      this.#loadedEvent = null
      link.kill()
      this.#start()
    }

    const receive = (event: HostEvent): void => {
      if (event.type === 'loaded') {
        this.#loadedEvent = event
        this.#loadFailure = null
        this.#options.logger.info(
          { base_model: this.#baseModel, load_ms: event.loadMs, ...servingFacts(event) },
          'engine.loaded',
        )
        loaded.resolve(event)
      } else if (event.type === 'failed' && event.id === null) {
        isUnloadable = true
        loaded.reject(this.#noteLoadFailure(event))
        link.kill()
      } else if (event.type === 'failed' && event.error.code === 'device_lost') cause ??= 'lost its device'
      else if (event.type === 'threads') this.#noteThreads(event)
      else if (event.type === 'worn') replace(event)
    }

    const link = this.#options.open({
      received: (events) => {
        if (isReplaced) return
        watchdog.heard()
        for (const event of events) receive(event)
        this.#options.onEvents(events)
      },
      ended: (reason) => {
        if (isReplaced) return exited.resolve()
        watchdog.stop()
        this.#running = null
        this.#loadedEvent = null
        this.#lastDeath = isUnloadable ? 'could not load its model' : (cause ?? reason)
        loaded.reject(restarting(this.#baseModel, this.#lastDeath))
        this.#onDeath({ reason: this.#lastDeath, livedMs: this.#options.clock.monotonicMs() - startedMs, isUnloadable })
        exited.resolve()
      },
    })
    const watchdog = createWatchdog(link.pid ?? 0, {
      frozenMs: FROZEN_MS,
      stuckMs: STUCK_MS,
      ...this.#options.watchdog,
      isWaitedFor: this.#options.isWaitedFor,
      ping: () => {
        nudgeThreadPool()
        link.send({ type: 'ping', id: WATCHDOG_PING })
      },
      onFrozen: (reason) => {
        cause = reason
        this.#options.logger.error({ base_model: this.#baseModel, reason, pid: link.pid }, 'engine.frozen')
        link.kill()
      },
    })
    this.#running = { link, loaded: loaded.promise, exited: exited.promise }
    link.send({ type: 'load', ...this.#options.load })
    if (this.#areCoresShared) link.send({ type: 'share_cores', isShared: true })
    if (this.#nodes.length > 0) link.send({ type: 'engine_nodes', nodes: this.#nodes })
    return this.#running
  }

  #noteLoadFailure(event: FailedEvent): AppError {
    this.#options.logger.error({ base_model: this.#baseModel, error: event.error }, 'engine.load_failed')
    this.#loadFailure = loadFailed(this.#baseModel, event)
    return this.#loadFailure
  }

  #noteThreads({ threads, heldUpMs, error }: ThreadsEvent): void {
    const facts = { base_model: this.#baseModel, threads: threads ?? 'all', held_up_ms: Math.round(heldUpMs) }
    if (error === null) this.#options.logger.info(facts, 'engine.threads')
    else this.#options.logger.warn({ ...facts, reason: error.message }, 'engine.threads_unchanged')
  }

  #onDeath({ reason, livedMs, isUnloadable }: Ending): void {
    this.#options.onDeath(restarting(this.#baseModel, reason))
    if (this.#isStopped) return
    this.#deaths = livedMs > STABLE_AFTER_MS ? 0 : this.#deaths + 1
    // the first restart is immediate; a host that keeps dying is started less and less often
    const backoffMs = this.#deaths <= 1 ? 0 : Math.min(MAX_BACKOFF_MS, 500 * 2 ** (this.#deaths - 2))
    this.#notBeforeMs = this.#options.clock.monotonicMs() + backoffMs
    // `engine.load_failed` has said why; the signal was this process's own and would read as running out of memory
    if (!isUnloadable) {
      const facts = {
        base_model: this.#baseModel,
        reason,
        lived_ms: Math.round(livedMs),
        deaths: this.#deaths,
        backoff_ms: backoffMs,
      }
      this.#options.logger.error(facts, 'engine.died')
    }
    if (this.#loadFailure !== null)
      this.#notBeforeMs = this.#options.clock.monotonicMs() + Math.min(Math.max(backoffMs, 1000), LOAD_RETRY_MS)
    else if (this.#deaths <= 1) this.#start()
  }
}

function servingFacts(loaded: LoadedEvent): Record<string, unknown> {
  const { precision, precisionReason, int8Speedup, threads, threadsBesideJob, device } = loaded
  const measured = int8Speedup == null ? {} : { int8_speedup: Number(int8Speedup.toFixed(2)) }
  const beside = threadsBesideJob == null ? {} : { threads_beside_job: threadsBesideJob }
  if (precision === null) return { engines: 'nodes' }
  const on = device === undefined ? {} : { device: device.description }
  const by = { threads: threads ?? 'all', ...beside, ...on }
  return { precision, precision_from: precisionReason ?? 'setting', ...measured, ...by }
}
