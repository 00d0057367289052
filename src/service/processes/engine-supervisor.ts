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
  const { logger, clock, load } = options
  const { baseModel } = load
  let running: Running | null = null
  let loadedEvent: LoadedEvent | null = null
  let isStopped = false
  let areCoresShared = false
  let nodes: readonly EngineNode[] = []
  let deaths = 0
  /** Why the host died the last time. */
  let lastDeath = ''
  let notBeforeMs = 0
  /** Why the model could not be loaded the last time; null once it was. */
  let loadFailure: AppError | null = null

  const send = (command: HostCommand): void => running?.link.send(command)

  function start(): Running {
    if (running !== null) return running
    if (isStopped) throw shuttingDown()
    const waitMs = notBeforeMs - clock.monotonicMs()
    if (waitMs > 0) throw loadFailure ?? keepsDying(baseModel, deaths, { reason: lastDeath, waitMs })
    const startedMs = clock.monotonicMs()
    const loaded = createDeferred<LoadedEvent>()
    const exited = createDeferred<void>()
    // a load that fails before anybody waits for it is reported to the next request
    loaded.promise.catch(() => undefined)
    /** Why it ends, where its own end does not say so. */
    let cause: string | null = null
    let isUnloadable = false
    let isReplaced = false

    /** Whoever asks from this turn on waits for the new host, as for the first one. */
    function replace({ residentBytes, loadedBytes }: WornEvent): void {
      if (isStopped || options.isWaitedFor()) return
      logger.info({ base_model: baseModel, resident_bytes: residentBytes, loaded_bytes: loadedBytes }, 'engine.renewed')
      isReplaced = true
      watchdog.stop()
      running = null
      loadedEvent = null
      link.kill()
      start()
    }

    function receive(event: HostEvent): void {
      if (event.type === 'loaded') {
        loadedEvent = event
        loadFailure = null
        logger.info({ base_model: baseModel, load_ms: event.loadMs, ...servingFacts(event) }, 'engine.loaded')
        loaded.resolve(event)
      } else if (event.type === 'failed' && event.id === null) {
        isUnloadable = true
        loaded.reject(noteLoadFailure(event))
        link.kill()
      } else if (event.type === 'failed' && event.error.code === 'device_lost') cause ??= 'lost its device'
      else if (event.type === 'threads') noteThreads(event)
      else if (event.type === 'worn') replace(event)
    }

    const link = options.open({
      received: (events) => {
        if (isReplaced) return
        watchdog.heard()
        for (const event of events) receive(event)
        options.onEvents(events)
      },
      ended: (reason) => {
        if (isReplaced) return exited.resolve()
        watchdog.stop()
        running = null
        loadedEvent = null
        lastDeath = isUnloadable ? 'could not load its model' : (cause ?? reason)
        loaded.reject(restarting(baseModel, lastDeath))
        onDeath({ reason: lastDeath, livedMs: clock.monotonicMs() - startedMs, isUnloadable })
        exited.resolve()
      },
    })
    const watchdog = createWatchdog(link.pid ?? 0, {
      frozenMs: FROZEN_MS,
      stuckMs: STUCK_MS,
      ...options.watchdog,
      isWaitedFor: options.isWaitedFor,
      ping: () => {
        nudgeThreadPool()
        link.send({ type: 'ping', id: WATCHDOG_PING })
      },
      onFrozen: (reason) => {
        cause = reason
        logger.error({ base_model: baseModel, reason, pid: link.pid }, 'engine.frozen')
        link.kill()
      },
    })
    running = { link, loaded: loaded.promise, exited: exited.promise }
    link.send({ type: 'load', ...load })
    if (areCoresShared) link.send({ type: 'share_cores', isShared: true })
    if (nodes.length > 0) link.send({ type: 'engine_nodes', nodes })
    return running
  }

  function noteLoadFailure(event: FailedEvent): AppError {
    logger.error({ base_model: baseModel, error: event.error }, 'engine.load_failed')
    loadFailure = loadFailed(baseModel, event)
    return loadFailure
  }

  function noteThreads({ threads, heldUpMs, error }: ThreadsEvent): void {
    const facts = { base_model: baseModel, threads: threads ?? 'all', held_up_ms: Math.round(heldUpMs) }
    if (error === null) logger.info(facts, 'engine.threads')
    else logger.warn({ ...facts, reason: error.message }, 'engine.threads_unchanged')
  }

  function onDeath({ reason, livedMs, isUnloadable }: Ending): void {
    options.onDeath(restarting(baseModel, reason))
    if (isStopped) return
    deaths = livedMs > STABLE_AFTER_MS ? 0 : deaths + 1
    // the first restart is immediate; a host that keeps dying is started less and less often
    const backoffMs = deaths <= 1 ? 0 : Math.min(MAX_BACKOFF_MS, 500 * 2 ** (deaths - 2))
    notBeforeMs = clock.monotonicMs() + backoffMs
    // `engine.load_failed` has said why; the signal was this process's own and would read as running out of memory
    if (!isUnloadable) {
      const facts = { base_model: baseModel, reason, lived_ms: Math.round(livedMs), deaths, backoff_ms: backoffMs }
      logger.error(facts, 'engine.died')
    }
    if (loadFailure !== null) notBeforeMs = clock.monotonicMs() + Math.min(Math.max(backoffMs, 1000), LOAD_RETRY_MS)
    else if (deaths <= 1) start()
  }

  return {
    start: async () => start().loaded,
    loaded: () => loadedEvent,
    send,
    gone: () => restarting(baseModel, lastDeath),
    shareCores: (isShared) => {
      areCoresShared = isShared
      send({ type: 'share_cores', isShared })
    },
    setNodes: (all) => {
      if (nodes.length === 0 && all.length === 0) return
      nodes = all
      send({ type: 'engine_nodes', nodes })
    },
    pid: () => running?.link.pid ?? null,
    stop: async (deadlineMs) => {
      isStopped = true
      const current = running
      if (current === null) return
      send({ type: 'shutdown', deadlineMs })
      const timer = setTimeout(() => current.link.kill(), deadlineMs + EXIT_MS)
      await current.exited
      clearTimeout(timer)
    },
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
