/**
 * Training workers: child processes that make one attempt after the other.
 *
 * The first attempt comes by environment, as for a worker started by hand on another machine; further ones over the child's
 * IPC channel once it has said that it is idle. Everything else goes over HTTP. A kept worker saves the start of a process
 * and of a training session; it is given up when it was idle too long, holds too much, or the machine's memory gets short.
 * One that failed in an unexpected way ends by itself, so each attempt starts from a sound process.
 */
import type { ChildProcess } from 'node:child_process'
import { availableMemoryBytes, inMegabytes, memoryBytes } from '#base/machine/memory.js'
import { residentTreeBytes } from '#base/machine/process-memory.js'
import { endOf, startChild } from '#base/processes/child.js'
import { withHugePages } from '#base/processes/malloc-tunables.js'
import { maxOf } from '#base/util/lists.js'
import {
  type WorkerAssignment,
  type WorkerFolders,
  type WorkerProbe,
  workerIdleSchema,
  workerProbeSchema,
} from '#contract/processes/worker.js'
import type { ComputingFacts } from '#contract/wire/training/worker-facts.js'

export interface WorkerPoolOptions {
  /** Environment of this process, of which the children are given what they use. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Variables that they are given beside it: what trains, and with how many threads. */
  readonly given?: Readonly<Record<string, string | undefined>>
  /** Whether the server that the children call is another machine's, perhaps behind a proxy. Default: they call loopback. */
  readonly isServerElsewhere?: boolean
  /** How long an idle worker is kept, milliseconds; 0 keeps none. */
  readonly keepMs: number
  /** Idle workers hold at most this together. Default: a quarter of the machine's memory. */
  readonly maxKeptBytes?: number | undefined
  /** Memory that could still be given out, bytes; for tests. Default: as the operating system or container says. */
  readonly availableBytes?: () => number
  /** How long a worker may take to show that it can run; for tests. */
  readonly probeMs?: number
  /** Module the children run. Default: the built training worker. */
  readonly entryPath?: string | undefined
  /** Hears why a worker without an attempt is not kept, in one clause. */
  readonly onGivenUp?: (pid: number | undefined, reason: string) => void
  /** Hears when the first of several attempts begins and when the last one is over. */
  readonly onComputing?: (isComputing: boolean) => void
}

/** One attempt as the pool starts it. */
export interface AttemptStart {
  /** Where the server listens, for example `http://127.0.0.1:8642`. */
  readonly serverUrl: string
  readonly token: string
  readonly jobId: string
  readonly attempt: number
  readonly folders: WorkerFolders
  /** A kept worker that last trained this model is preferred. */
  readonly modelId: string
  /** `jobId` is a training session's. */
  readonly isSession?: boolean
}

/** An attempt that runs. */
export interface WorkerProcess {
  readonly pid: number | null
  /** One clause that says how the attempt's process ended, or that it became idle; never rejects. */
  readonly ended: Promise<string>
  kill(): void
}

export interface WorkerPool {
  /** Starts an attempt in a kept worker or a new one; a failure to start shows in `ended`. */
  start(attempt: AttemptStart): WorkerProcess
  /**
   * Whether memory is left for one more worker beside those that run: as much as the largest of them holds, and a tenth of the
   * machine's. Kept workers are given up for it.
   */
  hasRoom(): boolean
  /**
   * Shows that a worker can run: one does, one waits, or one is started that loads its runtime and ends.
   *
   * @returns which, as a clause; rejects with why not
   */
  probe(): Promise<string>
  /** Starts a worker that loads what it computes with, and ends. @returns what that is; rejects with why it cannot */
  probeComputing(): Promise<ComputingFacts>
  /** Process ids of kept workers. */
  idlePids(): readonly number[]
  /** Ends the kept workers and those that only show that they run, and keeps none from now on. */
  stop(): void
}

interface IdleWorker {
  readonly child: ChildProcess
  readonly residentBytes: number
  readonly modelId: string
  readonly timer: NodeJS.Timeout
  readonly onExit: () => void
}

const WORKER = 'training/worker/main.js'
/** It starts PyTorch where that trains. */
const NEEDS = ['computing', 'python'] as const
const NEEDS_ELSEWHERE = [...NEEDS, 'calling'] as const
/** A worker that has not loaded its runtime by then is ended. */
const PROBE_MS = 60_000
/** The same where it may load PyTorch, and compute a gradient with it: its import alone takes a minute on a busy machine or a slow disk. */
const COMPUTING_PROBE_MS = 300_000
/** How often memory is looked at while workers are kept. */
const MEMORY_CHECK_MS = 5000
/** Kept workers are given up when less than this share of the machine's memory is left. */
const MIN_AVAILABLE_SHARE = 0.1
const MEMORY_IS_SHORT = 'memory is short'

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { keepMs } = options
  const maxKeptBytes = options.maxKeptBytes ?? memoryBytes() / 4
  const availableBytes = options.availableBytes ?? (() => availableMemoryBytes() ?? Number.POSITIVE_INFINITY)
  /** Longest idle first. */
  let idle: IdleWorker[] = []
  const running = new Set<ChildProcess>()
  const probing = new Set<ChildProcess>()
  let isStopped = false
  let memoryTimer: NodeJS.Timeout | null = null

  function take(modelId: string): ChildProcess | null {
    const found = idle.find((worker) => worker.modelId === modelId) ?? idle.at(-1)
    if (found === undefined) return null
    forget(found)
    return found.child
  }

  function forget(worker: IdleWorker): void {
    clearTimeout(worker.timer)
    worker.child.off('exit', worker.onExit)
    idle = idle.filter((other) => other !== worker)
    if (idle.length === 0 && memoryTimer !== null) {
      clearInterval(memoryTimer)
      memoryTimer = null
    }
  }

  function giveUp(worker: IdleWorker, reason: string): void {
    forget(worker)
    end(worker.child, reason)
  }

  function end(child: ChildProcess, reason: string): void {
    options.onGivenUp?.(child.pid, reason)
    // it holds nothing that is not stored
    child.kill('SIGKILL')
  }

  function keep(child: ChildProcess, modelId: string, residentBytes: number): void {
    const keptBytes = idle.reduce((sum, worker) => sum + worker.residentBytes, residentBytes)
    const obstacle = obstacleTo(keptBytes)
    if (obstacle !== null) {
      end(child, obstacle)
      return
    }
    const worker: IdleWorker = {
      child,
      residentBytes,
      modelId,
      timer: setTimeout(() => giveUp(worker, 'it waited for its whole time'), keepMs).unref(),
      onExit: () => forget(worker),
    }
    idle.push(worker)
    child.once('exit', worker.onExit)
    memoryTimer ??= setInterval(() => {
      const oldest = idle[0]
      if (oldest !== undefined && isMemoryShort()) giveUp(oldest, MEMORY_IS_SHORT)
    }, MEMORY_CHECK_MS).unref()
  }

  /** Why a worker is not kept that makes all of them hold this much. */
  function obstacleTo(keptBytes: number): string | null {
    if (isStopped || keepMs === 0) return 'no worker is kept'
    if (keptBytes > maxKeptBytes) return `kept workers would hold ${inMegabytes(keptBytes)}`
    return isMemoryShort() ? MEMORY_IS_SHORT : null
  }

  const isMemoryShort = (): boolean => availableBytes() < MIN_AVAILABLE_SHARE * memoryBytes()

  function hasRoom(): boolean {
    const largest = maxOf(
      [...running].map((child) => residentTreeBytes(child.pid)),
      0,
    )
    const isRoom = availableBytes() >= largest + MIN_AVAILABLE_SHARE * memoryBytes()
    // what it holds is free by the next time somebody asks
    if (!isRoom && idle[0] !== undefined) giveUp(idle[0], 'an attempt needs its memory')
    return isRoom
  }

  return {
    start: (attempt) => {
      const kept = take(attempt.modelId)
      const child = kept ?? launch(attempt, options)
      if (running.size === 0) options.onComputing?.(true)
      running.add(child)
      let isOver = false
      const ended = settle(child, (ownBytes) => {
        isOver = true
        // what computes for it in a process of its own is kept with it
        keep(child, attempt.modelId, Math.max(ownBytes, residentTreeBytes(child.pid)))
      })
      void ended.then(() => {
        running.delete(child)
        if (running.size === 0) options.onComputing?.(false)
      })
      // a channel that closed meanwhile shows as the process's exit
      if (kept !== null) kept.send(toAssignment(attempt), () => undefined)
      return {
        pid: child.pid ?? null,
        ended,
        kill: () => {
          if (!isOver) child.kill('SIGKILL')
        },
      }
    },
    hasRoom,
    probe: async () => {
      if (running.size > 0) return 'a worker trains'
      if (idle.some(({ child }) => child.connected)) return 'a worker is loaded and waits'
      const { trainer } = await probeNew(options, probing, options.probeMs ?? PROBE_MS)
      return `a worker was started and loaded its runtime${trainer === null ? '' : `; ${trainer}`}`
    },
    probeComputing: async () => (await probeNew(options, probing, options.probeMs ?? COMPUTING_PROBE_MS)).computing,
    idlePids: () => idle.flatMap(({ child }) => child.pid ?? []),
    stop: () => {
      isStopped = true
      for (const worker of idle) giveUp(worker, 'the pool stops')
      for (const child of probing) child.kill('SIGKILL')
    },
  }
}

/** Starts a worker that only loads its runtime. */
function probeNew(
  options: WorkerPoolOptions,
  probing: Set<ChildProcess>,
  mostMs: number,
): Promise<Extract<WorkerProbe, { readonly type: 'ready' }>> {
  const child = startChild(options.entryPath ?? WORKER, {
    environment: options.environment,
    needs: NEEDS,
    given: { ...options.given, TRAINYARD_WORKER_PROBE: '1' },
  })
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    child.kill('SIGKILL')
  }, mostMs).unref()
  probing.add(child)
  return new Promise((resolve, reject) => {
    let said: WorkerProbe | null = null
    let unreadable = ''
    child.on('message', (message: unknown) => {
      const read = workerProbeSchema.safeParse(message)
      if (read.success) said = read.data
      else unreadable = ': it said something that is not understood'
    })
    child.on('error', (error) => reject(new Error(`a worker could not be started: ${error.message}`)))
    child.on('exit', (code, signal) => {
      clearTimeout(timer)
      probing.delete(child)
      if (said?.type === 'ready') {
        resolve(said)
      } else if (said?.type === 'failed') reject(new Error(said.message))
      else if (isLate) reject(new Error(`a worker had not loaded its runtime after ${mostMs / 1000} s`))
      else reject(new Error(`a worker ended with ${signal ?? `code ${code}`} before it was ready${unreadable}`))
    })
  })
}

/** Resolves when the child's attempt is over, because it became idle or because the process ended. */
function settle(child: ChildProcess, onIdle: (residentBytes: number) => void): Promise<string> {
  return new Promise((resolve) => {
    const onMessage = (message: unknown): void => {
      const said = workerIdleSchema.safeParse(message)
      if (!said.success) return
      finish('the worker left its attempt without an end')
      onIdle(said.data.resident_bytes)
    }
    const onExit = (code: number | null, signal: NodeJS.Signals | null): void =>
      finish(`the worker ${endOf(code, signal)}`)
    const onError = (error: Error): void => finish(`the worker could not be started: ${error.message}`)
    function finish(reason: string): void {
      child.off('message', onMessage).off('exit', onExit).off('error', onError)
      resolve(reason)
    }
    child.on('message', onMessage).on('exit', onExit).on('error', onError)
  })
}

function launch(attempt: AttemptStart, options: WorkerPoolOptions): ChildProcess {
  return startChild(options.entryPath ?? WORKER, {
    isBehind: true,
    environment: withHugePages(options.environment),
    needs: options.isServerElsewhere === true ? NEEDS_ELSEWHERE : NEEDS,
    given: {
      ...options.given,
      TRAINYARD_WORKER_URL: attempt.serverUrl,
      TRAINYARD_WORKER_TOKEN: attempt.token,
      TRAINYARD_WORKER_JOB: attempt.jobId,
      TRAINYARD_WORKER_ATTEMPT: String(attempt.attempt),
      TRAINYARD_WORKER_FOLDERS: JSON.stringify(attempt.folders),
      TRAINYARD_WORKER_SESSION: attempt.isSession === true ? '1' : '0',
      TRAINYARD_WORKER_KEEP: options.keepMs === 0 ? '0' : '1',
    },
  })
}

function toAssignment(attempt: AttemptStart): WorkerAssignment {
  return {
    type: 'attempt',
    url: attempt.serverUrl,
    token: attempt.token,
    job_id: attempt.jobId,
    attempt: attempt.attempt,
    folders: attempt.folders,
    is_session: attempt.isSession === true,
  }
}
