/**
 * A worker on a machine without the server: claims jobs, and runs each in a child process of the pool, as the server does with its own.
 *
 * A claim tells the child what to ask the server for; its folders are this machine's. When it is told to stop it claims nothing more; what
 * still runs after a while goes back to the queue, from where another worker takes it up at its last resume point. Knows no HTTP: how a
 * claim is sent is handed in.
 */
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError, InstallationError } from '#base/errors/errors.js'
import { memoryBytes } from '#base/machine/memory.js'
import { systemClock } from '#base/util/clock.js'
import { systemIds } from '#base/util/ids.js'
import type { WorkerClaim, WorkerClaimRequest } from '#contract/processes/worker-claim.js'
import type { TrainerName } from '#contract/settings/service.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import { createWorkerPool, type WorkerPool } from './worker-pool.js'

export interface RemoteWorkerOptions {
  readonly serverUrl: string
  /** Sends a claim. @throws {AppError} of category `unavailable` where another try may help */
  readonly claim: (request: WorkerClaimRequest, signal: AbortSignal) => Promise<WorkerClaim>
  /** Its name and what runs here; what computes is asked of a process before the first claim. */
  readonly facts: WorkerFacts
  /** Whether jobs may be computed with anything but ONNX Runtime: then a process shows at the start what that is. */
  readonly hasTrainers: boolean
  /** Where fetched base models and prepared weights are kept. */
  readonly directory: string
  /** How long one request waits for a job. */
  readonly waitSeconds: number
  /** Jobs at once. */
  readonly jobs: number
  /** How long a process without a job is kept for the next one. */
  readonly keepMs: number
  /** How long a server that does not answer is tried. */
  readonly patienceMs: number
  /** Ends after so long without a job; null: never. */
  readonly idleExitMs: number | null
  /** See `WorkerPoolOptions`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly given: Readonly<Record<string, string | undefined>>
  readonly onEvent: (event: RemoteWorkerEvent) => void
  /** Module the children run; for tests. */
  readonly entryPath?: string | undefined
}

export type RemoteWorkerEvent =
  | { readonly type: 'ready' }
  | { readonly type: 'job_started'; readonly jobId: string; readonly attempt: number }
  /** @param how one clause; nothing is said of what the job came to: the server knows */
  | { readonly type: 'job_left'; readonly jobId: string; readonly attempt: number; readonly how: string }
  | { readonly type: 'server_away'; readonly reason: string }
  | { readonly type: 'server_back' }

export interface RemoteWorker {
  /** Resolves when it has ended; rejects with why it cannot go on. */
  readonly ended: Promise<void>
  /** Claims nothing more. What runs has so long to end by itself; then it goes back to the queue. */
  stop(deadlineMs: number): void
}

/** Pause between two tries of a server that is away. */
const RETRY_MS = 1000
/** How often memory for a further job is looked at. */
const ROOM_MS = 5000
/** What a killed worker left half fetched goes after this time. */
const STALE_MS = 24 * 3600 * 1000

type Attempt = ReturnType<WorkerPool['start']>
type Left = WorkerClaimRequest['left']

/** Starts it: the first claim is sent at once. A server that is away is tried as long as later; one that refuses is an error. */
export function startRemoteWorker(options: RemoteWorkerOptions): RemoteWorker {
  const { directory, onEvent } = options
  let { facts } = options
  let trainers: readonly TrainerName[] = ['onnx']
  const folders = { base_model: null, prepared: join(directory, 'prepared'), fetched: join(directory, 'base-models') }
  const pool = createWorkerPool({
    environment: options.environment,
    given: {
      ...options.given,
      TRAINYARD_WORKER_PATIENCE_SECONDS: String(options.patienceMs / 1000),
      TRAINYARD_WORKER_READS_DIRECT: '1',
      // always: a device that this process inherited is not proven here
      TRAINYARD_WORKER_DEVICE: 'cpu',
      TRAINYARD_WORKER_DEVICE_NAME: 'cpu',
    },
    isServerElsewhere: true,
    keepMs: options.keepMs,
    entryPath: options.entryPath,
  })
  /** Aborted: nothing more is claimed. */
  const draining = new AbortController()
  const running = new Set<Attempt>()
  let isKilled = false
  let isAway = false
  let isReady = false
  let idleSinceMs = systemClock.monotonicMs()

  const request = (id: string, left: Left, waitSeconds: number): WorkerClaimRequest => ({
    worker: { ...facts, id, trainers: [...trainers], memory_bytes: memoryBytes() },
    wait_seconds: waitSeconds,
    left,
    is_leaving: false,
  })

  /** @throws {AppError} what no further try mends, or the last of a server that was away for too long */
  async function send(asked: WorkerClaimRequest, signal: AbortSignal): Promise<WorkerClaim> {
    const startMs = systemClock.monotonicMs()
    for (;;) {
      try {
        const answer = await options.claim(asked, signal)
        if (isAway) onEvent({ type: 'server_back' })
        isAway = false
        return answer
      } catch (error) {
        if (signal.aborted) return { claim: null }
        // before the first answer an error of the server may be that of something else at its address
        const passing = isReady ? PASSING : PASSING_AT_FIRST
        const isPassing = error instanceof AppError && passing.has(error.category)
        if (!isPassing || systemClock.monotonicMs() - startMs > options.patienceMs) throw error
        if (!isAway) onEvent({ type: 'server_away', reason: error.message })
        isAway = true
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined)
      }
    }
  }

  /** Makes one attempt after the other. */
  async function work(): Promise<void> {
    const id = systemIds.uuid()
    let left: Left = null
    try {
      while (!draining.signal.aborted) {
        if (running.size > 0 && !pool.hasRoom()) {
          await sleep(ROOM_MS, undefined, { signal: draining.signal }).catch(() => undefined)
          continue
        }
        const askedMs = systemClock.monotonicMs()
        // the first answer comes at once: it shows that key, version and address are right
        const { claim } = await send(request(id, left, isReady ? options.waitSeconds : 0), draining.signal)
        if (draining.signal.aborted && claim === null) break
        left = null
        if (!isReady) onEvent({ type: 'ready' })
        isReady = true
        if (claim === null) {
          // an answer that came early: whatever says so must not be asked all the time
          const restMs = PAUSE_MS - (systemClock.monotonicMs() - askedMs)
          if (
            options.idleExitMs !== null &&
            running.size === 0 &&
            systemClock.monotonicMs() - idleSinceMs > options.idleExitMs
          ) {
            draining.abort()
          } else if (restMs > 0) await sleep(restMs, undefined, { signal: draining.signal }).catch(() => undefined)
          continue
        }
        left = await attempt(claim)
      }
    } finally {
      // within the time of a request: whoever stops us waits for no server that is away
      const leaving = { ...request(id, left, 0), is_leaving: true }
      await options.claim(leaving, AbortSignal.timeout(LEAVE_MS)).catch(() => undefined)
    }
  }

  async function attempt(claim: NonNullable<WorkerClaim['claim']>): Promise<Left> {
    const { job_id: jobId, attempt: number, token, model_id: modelId, is_session: isSession } = claim
    onEvent({ type: 'job_started', jobId, attempt: number })
    const { serverUrl } = options
    const process = pool.start({ serverUrl, token, jobId, attempt: number, modelId, folders, isSession })
    running.add(process)
    if (isKilled) process.kill()
    const how = await process.ended
    running.delete(process)
    idleSinceMs = systemClock.monotonicMs()
    onEvent({ type: 'job_left', jobId, attempt: number, how })
    return { reason: isKilled ? 'its worker was told to stop' : how.slice(0, 500), is_orderly: isKilled }
  }

  async function run(): Promise<void> {
    await mkdir(folders.fetched, { recursive: true, mode: 0o700 })
    await removeStale(folders.fetched)
    if (options.hasTrainers) await findTrainer()
    try {
      await Promise.all([work(), ...Array.from({ length: options.jobs - 1 }, workWhenReady)])
    } finally {
      draining.abort()
      kill()
      pool.stop()
    }
  }

  /** What jobs are computed with must be known before one is claimed. @throws {InstallationError} where it cannot be had */
  async function findTrainer(): Promise<void> {
    const computing = await pool.probeComputing().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error)
      throw new InstallationError('trainer_unavailable', reason, {
        hint: 'trainyard worker --trainer onnx needs nothing',
      })
    })
    facts = { ...facts, ...computing, versions: { ...facts.versions, ...computing.versions } }
    if (computing.trainer === 'torch') trainers = ['onnx', 'torch']
  }

  /** Nothing is asked twice of a server that refuses. */
  async function workWhenReady(): Promise<void> {
    while (!isReady && !draining.signal.aborted) await sleep(READY_MS)
    await work()
  }

  function kill(): void {
    isKilled = true
    for (const process of running) process.kill()
  }

  return {
    ended: run(),
    stop: (deadlineMs) => {
      draining.abort()
      setTimeout(kill, deadlineMs).unref()
    },
  }
}

/** Errors after which the server is asked again. */
const PASSING: ReadonlySet<AppError['category']> = new Set(['unavailable', 'rate_limited', 'internal'])
const PASSING_AT_FIRST: ReadonlySet<AppError['category']> = new Set(['unavailable', 'rate_limited'])
const READY_MS = 20
/** Between two claims that are answered with nothing. */
const PAUSE_MS = 500
/** How long a worker that ends tries to say what it leaves. */
const LEAVE_MS = 3000

async function removeStale(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.endsWith('.incoming')) continue
    const path = join(directory, name)
    const facts = await stat(path).catch(() => null)
    if (facts !== null && systemClock.nowMs() - facts.mtimeMs > STALE_MS)
      await rm(path, { recursive: true, force: true })
  }
}

export { workerFacts } from './worker-facts.js'
