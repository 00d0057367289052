/**
 * Gives queued jobs to workers and watches them: claims, starts, renews the leases of those that live, gives up those that
 * do not move on (`attempt-watch.ts`), stops workers that ignore a cancel.
 *
 * Does not know how a worker is started (`StartWorker` is injected) and never touches training itself.
 */

import type { Logger } from '#base/logging/logger.js'
import type { IdSource } from '#base/util/ids.js'
import { SERVICE_DEFAULTS } from '#contract/settings/service.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { findClaimableJob } from '#service/storage/jobs/states.js'
import { findJob } from '#service/storage/training-jobs.js'
import { type AttemptLimits, type AttemptWatch, watchAttempt } from './attempt-watch.js'
import { type ClaimedJob, claimNextJob } from './queue.js'
import { expireLeases, type LostAttempt, RESTART_BACKOFF_MS, releaseAttempt } from './recovery.js'
import type { JobSignals } from './signals.js'

/** A started worker. */
export interface RunningWorker {
  /** Resolves with one clause that says how it ended, for example `the worker exited with code 1`; never rejects. */
  readonly ended: Promise<string>
  /** Its process; absent or null: not known. */
  readonly pid?: number | null
  /** Ends it at once. */
  kill(): void
}

export type StartWorker = (claimed: ClaimedJob) => RunningWorker

/** What else needs workers: training sessions (`sessions/session-runner.ts`). */
export interface WorkerSharer {
  /** Workers it has. */
  count(): number
  isWaiting(): boolean
  /** Takes one more worker. @returns whether it had a use for it */
  startNext(): Promise<boolean>
  /** Somebody waits: it gives a worker back as soon as that is fair. */
  makeRoom(): void
  /** Time has passed: called as often as leases are looked at. */
  tick(): void
}

export interface DispatcherOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly logger: Logger
  readonly signals: JobSignals
  readonly startWorker: StartWorker
  /** Jobs that may run at once. */
  readonly trainWorkers: number
  /** Whether the machine has memory for one more job; asked only while others run that have made a step. Default: it has. */
  readonly hasRoom?: () => boolean
  readonly timing: JobTiming
  /** Who has the other workers; jobs and it take turns. Absent: nobody. */
  readonly sharer?: () => WorkerSharer
}

/** When the queue gives up on a worker, and when it tries again. */
export interface JobTiming {
  /** A job whose worker is not known to live is given away after this silence. */
  readonly leaseMs: number
  /** How long a worker may take from its start to its first request. */
  readonly startMs: number
  /** How long a worker that answers may make no progress. */
  readonly stallMs: number
  /** Pause before a job that lost its worker runs again; grows with each loss. */
  readonly backoffMs: number
  /** How often leases and cancels are looked at. */
  readonly sweepMs: number
  /** How long a worker may take to honour a cancel before it is killed. */
  readonly cancelGraceMs: number
}

export const DEFAULT_JOB_TIMING: JobTiming = {
  leaseMs: SERVICE_DEFAULTS.jobLeaseMs,
  startMs: SERVICE_DEFAULTS.workerStartTimeoutMs,
  stallMs: SERVICE_DEFAULTS.workerStallTimeoutMs,
  backoffMs: RESTART_BACKOFF_MS,
  sweepMs: 500,
  cancelGraceMs: 15_000,
}

export interface Dispatcher {
  start(): void
  /** Looks for work now instead of at the next sweep. */
  wake(): void
  /** A worker sent a request. @param progress see `AttemptWatch.note` */
  noteContact(attempt: { readonly jobId: string; readonly attempt: number }, progress: number | 'moved' | null): void
  /** Jobs running in this process. */
  runningCount(): number
  /** A sweep failed: what the system check reports; null while all is well. */
  lastError(): string | null
  /** Starts nothing more, kills the workers, waits for them; their jobs are queued again by `releaseAttempt`. */
  stop(): Promise<void>
}

interface Slot {
  readonly jobId: string
  readonly worker: RunningWorker
  readonly attempt: number
  /** Steps of the job when this attempt began. */
  readonly stepsBefore: number
  readonly watch: AttemptWatch
  cancelTicks: number
}

/** A living worker may miss this many leases before it counts as frozen. */
export const SILENT_LEASES = 10

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { db, ids, logger, signals } = options
  const { leaseMs, startMs, stallMs, backoffMs, sweepMs, cancelGraceMs } = options.timing
  const owner = `local-${ids.uuid()}`
  const limits: AttemptLimits = {
    startMs,
    silenceMs: SILENT_LEASES * leaseMs,
    stallMs,
  }
  const slots = new Set<Slot>()
  const endings = new Set<Promise<void>>()
  let timer: NodeJS.Timeout | null = null
  let isStopped = false
  let failure: string | null = null
  let sweeping: Promise<void> | null = null
  let isWoken = false
  /** Who had the last turn of those that share the workers. */
  let wasJob = false
  const sharer = (): WorkerSharer | undefined => options.sharer?.()

  async function sweep(): Promise<void> {
    const { lost, renewed } = await expireLeases(db, ids, { living: [...slots], leaseMs: leaseMs })
    for (const jobId of lost) {
      logger.warn({ job_id: jobId }, 'job.lease_expired')
      signals.notify(jobId)
    }
    for (const jobId of renewed) logger.debug({ job_id: jobId }, 'job.lease_renewed')
    for (const slot of slots) await giveUpStuck(slot)
    await killUnresponsive()
    while (!isStopped && usedWorkers() < options.trainWorkers) {
      // those that run must not be killed for memory by the next; alone, a job always starts
      if (usedWorkers() > 0 && !(await hasRoom())) break
      if (wasJob && (await startSharer())) continue
      const claimed = await claimNextJob(db, ids, { owner, leaseMs: leaseMs })
      if (claimed !== null) {
        wasJob = true
        launch(claimed)
      } else if (!(await startSharer())) break
    }
    await askForRoom()
  }

  function usedWorkers(): number {
    return slots.size + (sharer()?.count() ?? 0)
  }

  async function startSharer(): Promise<boolean> {
    const isStarted = (await sharer()?.startNext()) === true
    if (isStarted) wasJob = false
    return isStarted
  }

  async function askForRoom(): Promise<void> {
    const other = sharer()
    if (isStopped || other === undefined || other.count() === 0 || usedWorkers() < options.trainWorkers) return
    if (other.isWaiting() || (await findClaimableJob(db)) !== null) other.makeRoom()
  }

  /** What a worker will hold shows with its first step: until then nobody can tell what is left. */
  async function hasRoom(): Promise<boolean> {
    if (options.hasRoom === undefined) return true
    for (const { jobId, stepsBefore } of slots) {
      const job = await findJob(db, jobId)
      if (job !== null && job.gradientSteps <= stepsBefore) return false
    }
    return options.hasRoom()
  }

  /** Fences first: whatever the process still does, and whenever it dies, changes nothing. */
  async function giveUpStuck({ jobId, attempt, watch, worker }: Slot): Promise<void> {
    const reason = watch.verdict()
    if (reason === null) return
    await release({ jobId, attempt, reason, isOrderly: false })
    worker.kill()
  }

  async function release(lost: LostAttempt): Promise<void> {
    const status = await releaseAttempt(db, ids, { ...lost, backoffMs: backoffMs })
    if (status === null) return
    const facts = { job_id: lost.jobId, attempt: lost.attempt, reason: lost.reason }
    // a worker that is slow to hear of it is killed
    if (status === 'cancelled') logger.info(facts, 'job.cancelled')
    else logger.warn({ ...facts, status }, 'job.worker_lost')
    signals.notify(lost.jobId)
  }

  async function killUnresponsive(): Promise<void> {
    for (const slot of slots) {
      const job = await findJob(db, slot.jobId)
      const isOver = job === null || job.status !== 'running' || job.attempt !== slot.attempt
      if (!isOver && !job.isCancelRequested) continue
      slot.cancelTicks += 1
      if (slot.cancelTicks * sweepMs > cancelGraceMs) slot.worker.kill()
    }
  }

  function launch(claimed: ClaimedJob): void {
    const { job } = claimed
    logger.info({ job_id: job.id, model_id: job.modelId, kind: job.kind, attempt: job.attempt }, 'job.started')
    const worker = options.startWorker(claimed)
    const slot: Slot = {
      jobId: job.id,
      worker,
      attempt: job.attempt,
      stepsBefore: job.gradientSteps,
      watch: watchAttempt(limits, sweepMs),
      cancelTicks: 0,
    }
    slots.add(slot)
    const ending = worker.ended.then(async (reason) => {
      slots.delete(slot)
      await release({ jobId: job.id, attempt: job.attempt, reason, isOrderly: isStopped })
      signals.notify(job.id)
      wake()
    })
    const settled = ending.catch((error: unknown) => report(error)).finally(() => endings.delete(settled))
    endings.add(settled)
    signals.notify(job.id)
  }

  function report(error: unknown): void {
    failure = error instanceof Error ? error.message : String(error)
    logger.error({ err: error }, 'job.dispatch_failed')
  }

  function wake(): void {
    if (isStopped || timer === null) return
    isWoken = true
    sweeping ??= run().finally(() => {
      sweeping = null
    })
  }

  async function run(): Promise<void> {
    while (isWoken && !isStopped) {
      isWoken = false
      try {
        await sweep()
        failure = null
      } catch (error) {
        report(error)
      }
    }
  }

  return {
    wake,
    start: () => {
      timer = setInterval(() => {
        for (const slot of slots) slot.watch.tick()
        sharer()?.tick()
        wake()
      }, sweepMs)
      wake()
    },
    noteContact: ({ jobId, attempt }, progress) => {
      for (const slot of slots) if (slot.jobId === jobId && slot.attempt === attempt) slot.watch.note(progress)
    },
    runningCount: () => slots.size,
    lastError: () => failure,
    stop: async () => {
      isStopped = true
      if (timer !== null) clearInterval(timer)
      await sweeping
      for (const slot of slots) slot.worker.kill()
      await Promise.all(endings)
    },
  }
}
