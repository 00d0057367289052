/**
 * One engine host: starts the child process, sends it commands, routes its events to the requests they belong to, and
 * starts it again when it dies.
 *
 * Knows the IPC messages (`inference/host/protocol.ts`) and nothing of HTTP, models or adapters. A request in flight when the
 * host dies fails with `engine_restarting`; the next one waits for the new process.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { AppError } from '#base/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { type AsyncQueue, createAsyncQueue } from '#base/util/async-queue.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import type {
  DeltaEvent,
  FailedEvent,
  GenerateCommand,
  HostCommand,
  HostEvent,
  LoadCommand,
  LoadedEvent,
  PongEvent,
  StartedEvent,
} from '#inference/host/protocol.js'
import { builtModule, dieWithParentFlags } from './entry.js'
import { CHILD_STDIO, releaseLifeline } from './lifeline.js'

export interface EngineProcessOptions {
  readonly load: Omit<LoadCommand, 'type'>
  readonly logger: Logger
  readonly clock: Clock
  /** Module the child runs. Default: the built engine host. */
  readonly entryPath?: string
  /** Requests that may be in flight or wait; beyond it `queue_full`. */
  readonly maxPendingRequests: number
}

export type GenerationEvent = StartedEvent | DeltaEvent

export interface EngineProcess {
  readonly baseModel: string
  /** Starts the host if it does not run. Resolves when the model is loaded; rejects with why it cannot be. */
  ready(): Promise<LoadedEvent>
  /** What `ready` resolved to, if it did. */
  loaded(): LoadedEvent | null
  /** Sends a request; ends after the last delta. Leaving the loop early, or `signal`, aborts it. */
  generate(command: Omit<GenerateCommand, 'type'>, signal: AbortSignal): AsyncIterable<GenerationEvent>
  /** @throws {AppError} `engine_unresponsive` if no answer comes in time */
  ping(id: string, timeoutMs: number): Promise<PongEvent>
  forgetAdapter(digest: string): void
  /** Process id of the running host, for tests of its death. */
  pid(): number | null
  /** Lets running requests finish until the deadline, then ends the process. */
  stop(deadlineMs: number): Promise<void>
}

interface Pending {
  readonly queue: AsyncQueue<GenerationEvent>
  isAborted: boolean
}

interface Running {
  readonly child: ChildProcess
  readonly loaded: Promise<LoadedEvent>
  readonly exited: Promise<void>
}

const MAX_BACKOFF_MS = 30_000
const STABLE_AFTER_MS = 10_000

export function createEngineProcess(options: EngineProcessOptions): EngineProcess {
  const { logger, clock, load } = options
  const maxPending = options.maxPendingRequests
  const pending = new Map<string, Pending>()
  const pings = new Map<string, { resolve: (pong: PongEvent) => void; reject: (error: AppError) => void }>()
  let running: Running | null = null
  let loadedEvent: LoadedEvent | null = null
  let isStopped = false
  let failures = 0
  let notBeforeMs = 0
  /** Why the model could not be loaded the last time; null once it was. */
  let loadFailure: AppError | null = null

  function start(): Running {
    if (running !== null) return running
    if (isStopped) throw new AppError('unavailable', 'shutting_down', 'the server is shutting down')
    const waitMs = notBeforeMs - clock.monotonicMs()
    if (waitMs > 0) throw loadFailure ?? restarting(load.baseModel, Math.ceil(waitMs / 1000))
    const child = fork(options.entryPath ?? builtModule('inference/host/main.js'), [], {
      serialization: 'advanced',
      execArgv: dieWithParentFlags(),
      stdio: CHILD_STDIO,
    })
    releaseLifeline(child)
    const startedMs = clock.monotonicMs()
    const { promise: loaded, resolve, reject } = createDeferred<LoadedEvent>()
    // a load that fails before anybody waits for it is reported to the next request
    loaded.catch(() => undefined)
    child.on('message', (event: HostEvent) => {
      if (event.type === 'loaded') {
        loadedEvent = event
        loadFailure = null
        logger.info({ base_model: load.baseModel, load_ms: event.loadMs, precision: event.precision }, 'engine.loaded')
        resolve(event)
      } else if (event.type === 'failed' && event.id === null) {
        logger.error({ base_model: load.baseModel, error: event.error }, 'engine.load_failed')
        loadFailure = loadFailed(load.baseModel, event)
        reject(loadFailure)
        child.kill('SIGKILL')
      } else route(event)
    })
    const exited = new Promise<void>((settle) => {
      const onEnd = (reason: string): void => {
        if (running?.child !== child) return
        running = null
        loadedEvent = null
        reject(restarting(load.baseModel, 1))
        onDeath(reason, clock.monotonicMs() - startedMs)
        settle()
      }
      child.once('exit', (code, signal) => onEnd(signal === null ? `exit code ${code}` : `signal ${signal}`))
      child.once('error', (error) => onEnd(error.message))
    })
    running = { child, loaded, exited }
    send({ type: 'load', ...load })
    return running
  }

  function onDeath(reason: string, livedMs: number): void {
    const error = restarting(load.baseModel, 1)
    for (const request of pending.values()) request.queue.fail(error)
    pending.clear()
    for (const ping of pings.values()) ping.reject(error)
    pings.clear()
    if (isStopped) return
    logger.error({ base_model: load.baseModel, reason, lived_ms: Math.round(livedMs) }, 'engine.died')
    failures = livedMs > STABLE_AFTER_MS ? 0 : failures + 1
    // the first restart is immediate; a host that keeps dying is started less and less often
    const backoffMs = failures <= 1 ? 0 : Math.min(MAX_BACKOFF_MS, 500 * 2 ** (failures - 2))
    notBeforeMs = clock.monotonicMs() + backoffMs
    if (loadFailure !== null) notBeforeMs = clock.monotonicMs() + Math.max(backoffMs, 1000)
    else if (failures <= 1) start()
  }

  function send(command: HostCommand): void {
    const child = running?.child
    if (child?.connected !== true) return
    // a failed send means the host is dying: its exit event rejects what is pending
    child.send(command, () => undefined)
  }

  function route(event: HostEvent): void {
    if (event.type === 'loaded') return
    if (event.type === 'pong') {
      pings.get(event.id)?.resolve(event)
      pings.delete(event.id)
      return
    }
    if (event.id === null) return
    const request = pending.get(event.id)
    if (request === undefined) return
    if (event.type === 'finished') {
      pending.delete(event.id)
      request.queue.end()
    } else if (event.type === 'failed') {
      pending.delete(event.id)
      request.queue.fail(toAppError(event))
    } else request.queue.push(event)
  }

  function abort(id: string): void {
    const request = pending.get(id)
    if (request === undefined || request.isAborted) return
    request.isAborted = true
    send({ type: 'abort', id })
  }

  async function* generate(
    command: Omit<GenerateCommand, 'type'>,
    signal: AbortSignal,
  ): AsyncGenerator<GenerationEvent> {
    await start().loaded
    if (pending.size >= maxPending) {
      throw new AppError('rate_limited', 'queue_full', `the engine holds ${maxPending} requests already`, {
        hint: 'send fewer requests at once',
      })
    }
    const onAbort = (): void => abort(command.id)
    const queue = createAsyncQueue<GenerationEvent>(onAbort)
    pending.set(command.id, { queue, isAborted: false })
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      send({ type: 'generate', ...command })
      if (signal.aborted) onAbort()
      yield* queue
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  async function ready(): Promise<LoadedEvent> {
    return start().loaded
  }

  return {
    baseModel: load.baseModel,
    ready,
    generate,
    loaded: () => loadedEvent,
    pid: () => running?.child.pid ?? null,
    forgetAdapter: (digest) => send({ type: 'forget_adapter', digest }),
    ping: async (id, timeoutMs) => {
      await ready()
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

function toAppError(event: FailedEvent): AppError {
  const { category, code, message, param, hint, details } = event.error
  return new AppError(category, code, message, {
    param: param ?? undefined,
    hint: hint ?? undefined,
    details: details ?? undefined,
  })
}

/** Whatever the reason, the request that waited for the model is not at fault. */
function loadFailed(baseModel: string, event: FailedEvent): AppError {
  return new AppError(
    'unavailable',
    'model_load_failed',
    `base model "${baseModel}" cannot be loaded: ${event.error.message}`,
    {
      hint: event.error.hint ?? 'look at the log of the server',
      details: { retry_after_seconds: 5 },
    },
  )
}

function restarting(baseModel: string, retryAfterSeconds: number): AppError {
  return new AppError(
    'unavailable',
    'engine_restarting',
    `the engine of base model "${baseModel}" stopped and restarts`,
    {
      hint: 'send the request again',
      details: { retry_after_seconds: retryAfterSeconds },
    },
  )
}

function unresponsive(baseModel: string, timeoutMs: number): AppError {
  return new AppError(
    'unavailable',
    'engine_unresponsive',
    `the engine of base model "${baseModel}" did not answer within ${timeoutMs} ms`,
  )
}
