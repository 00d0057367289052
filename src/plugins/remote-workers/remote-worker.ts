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
import { TRAINER_NAMES, type TrainerName } from '#contract/settings/service.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import { createWorkerPool, type WorkerPool } from '#service/processes/worker-pool.js'

interface RemoteWorkerOptions {
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
  return new ClaimingWorker(options)
}

class ClaimingWorker implements RemoteWorker {
  readonly ended: Promise<void>
  readonly #options: RemoteWorkerOptions
  #facts: WorkerFacts
  #trainers: readonly TrainerName[] = ['onnx']
  readonly #folders: { readonly base_model: null; readonly prepared: string; readonly fetched: string }
  readonly #pool: WorkerPool
  /** Aborted: nothing more is claimed. */
  readonly #draining = new AbortController()
  readonly #running = new Set<Attempt>()
  #isKilled = false
  #isAway = false
  #isReady = false
  #idleSinceMs = systemClock.monotonicMs()

  constructor(options: RemoteWorkerOptions) {
    this.#options = options
    this.#facts = options.facts
    this.#folders = {
      base_model: null,
      prepared: join(options.directory, 'prepared'),
      fetched: join(options.directory, 'base-models'),
    }
    this.#pool = createWorkerPool({
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
    this.ended = this.#run()
  }

  stop(deadlineMs: number): void {
    this.#draining.abort()
    setTimeout(() => this.#kill(), deadlineMs).unref()
  }

  #request(id: string, left: Left, waitSeconds: number): WorkerClaimRequest {
    return {
      worker: { ...this.#facts, id, trainers: [...this.#trainers], memory_bytes: memoryBytes() },
      wait_seconds: waitSeconds,
      left,
      is_leaving: false,
    }
  }

  /** @throws {AppError} what no further try mends, or the last of a server that was away for too long */
  async #send(asked: WorkerClaimRequest, signal: AbortSignal): Promise<WorkerClaim> {
    const startMs = systemClock.monotonicMs()
    for (;;) {
      try {
        const answer = await this.#options.claim(asked, signal)
        if (this.#isAway) this.#options.onEvent({ type: 'server_back' })
        this.#isAway = false
        return answer
      } catch (error) {
        if (signal.aborted) return { claim: null }
        // before the first answer an error of the server may be that of something else at its address
        const passing = this.#isReady ? PASSING : PASSING_AT_FIRST
        const isPassing = error instanceof AppError && passing.has(error.category)
        if (!isPassing || systemClock.monotonicMs() - startMs > this.#options.patienceMs) throw error
        if (!this.#isAway) this.#options.onEvent({ type: 'server_away', reason: error.message })
        this.#isAway = true
        await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined)
      }
    }
  }

  /** Makes one attempt after the other. */
  async #work(): Promise<void> {
    const id = systemIds.uuid()
    const { signal } = this.#draining
    const { waitSeconds, idleExitMs } = this.#options
    let left: Left = null
    try {
      while (!signal.aborted) {
        if (this.#running.size > 0 && !this.#pool.hasRoom()) {
          await sleep(ROOM_MS, undefined, { signal }).catch(() => undefined)
          continue
        }
        const askedMs = systemClock.monotonicMs()
        // the first answer comes at once: it shows that key, version and address are right
        const { claim } = await this.#send(this.#request(id, left, this.#isReady ? waitSeconds : 0), signal)
        if (signal.aborted && claim === null) break
        left = null
        if (!this.#isReady) this.#options.onEvent({ type: 'ready' })
        this.#isReady = true
        if (claim === null) {
          // an answer that came early: whatever says so must not be asked all the time
          const restMs = PAUSE_MS - (systemClock.monotonicMs() - askedMs)
          const idleMs = systemClock.monotonicMs() - this.#idleSinceMs
          if (idleExitMs !== null && this.#running.size === 0 && idleMs > idleExitMs) this.#draining.abort()
          else if (restMs > 0) await sleep(restMs, undefined, { signal }).catch(() => undefined)
          continue
        }
        left = await this.#attempt(claim)
      }
    } finally {
      // within the time of a request: whoever stops us waits for no server that is away
      const leaving = { ...this.#request(id, left, 0), is_leaving: true }
      await this.#options.claim(leaving, AbortSignal.timeout(LEAVE_MS)).catch(() => undefined)
    }
  }

  async #attempt(claim: NonNullable<WorkerClaim['claim']>): Promise<Left> {
    const { job_id: jobId, attempt: number, token, model_id: modelId, is_session: isSession } = claim
    this.#options.onEvent({ type: 'job_started', jobId, attempt: number })
    const at = { serverUrl: this.#options.serverUrl, folders: this.#folders }
    const process = this.#pool.start({ ...at, token, jobId, attempt: number, modelId, isSession })
    this.#running.add(process)
    if (this.#isKilled) process.kill()
    const how = await process.ended
    this.#running.delete(process)
    this.#idleSinceMs = systemClock.monotonicMs()
    this.#options.onEvent({ type: 'job_left', jobId, attempt: number, how })
    return { reason: this.#isKilled ? 'its worker was told to stop' : how.slice(0, 500), is_orderly: this.#isKilled }
  }

  async #run(): Promise<void> {
    await mkdir(this.#folders.fetched, { recursive: true, mode: 0o700 })
    await removeStale(this.#folders.fetched)
    if (this.#options.hasTrainers) await this.#findTrainer()
    try {
      await Promise.all([this.#work(), ...Array.from({ length: this.#options.jobs - 1 }, () => this.#workWhenReady())])
    } finally {
      this.#draining.abort()
      this.#kill()
      this.#pool.stop()
    }
  }

  /** What jobs are computed with must be known before one is claimed. @throws {InstallationError} where it cannot be had */
  async #findTrainer(): Promise<void> {
    const computing = await this.#pool.probeComputing().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error)
      throw new InstallationError('trainer_unavailable', reason, {
        hint: 'trainyard worker --trainer onnx needs nothing',
      })
    })
    this.#facts = { ...this.#facts, ...computing, versions: { ...this.#facts.versions, ...computing.versions } }
    this.#trainers = TRAINER_NAMES.filter((name) => name === 'onnx' || name === computing.trainer)
  }

  /** Nothing is asked twice of a server that refuses. */
  async #workWhenReady(): Promise<void> {
    while (!this.#isReady && !this.#draining.signal.aborted) await sleep(READY_MS)
    await this.#work()
  }

  #kill(): void {
    this.#isKilled = true
    for (const process of this.#running) process.kill()
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

export { workerFacts } from '#service/processes/worker-facts.js'
