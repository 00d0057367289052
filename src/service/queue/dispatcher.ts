/**
 * The queue of training work, put together: jobs and sessions as sources of work, workers of this machine and of others as
 * pools, and the loop between them (`scheduler.ts`). What requests and timers have to do with it comes in here.
 *
 * Does not know how a worker is started (`StartWorker` is injected) and never touches training itself.
 */

import type { Logger } from '#base/logging/logger.js'
import type { IdSource } from '#base/util/ids.js'
import { SERVICE_DEFAULTS, type TrainerName } from '#contract/settings/service.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import type { Claimant } from '#service/storage/jobs/states.js'
import type { AttemptLimits } from './attempt-watch.js'
import { createJobAttempts, type JobAttempts } from './job-attempts.js'
import { createLeaseWatch } from './lease-watch.js'
import { createLocalWorkers, type StartWorker } from './local-workers.js'
import { alone, type Peers } from './peers.js'
import { localOwner } from './queue.js'
import { RESTART_BACKOFF_MS } from './recovery.js'
import { createRemoteWorkers, type RemoteWait, type RemoteWorker, type RemoteWorkers } from './remote-workers.js'
import { createScheduler } from './scheduler.js'
import type { JobSignals } from './signals.js'
import { createReach, type Reach, type WorkerKind, type WorkerSupply } from './unclaimable.js'
import type { Work, WorkerEnd, WorkSource } from './work.js'

export interface DispatcherOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly logger: Logger
  readonly signals: JobSignals
  /** Other servers on the database. Default: there are none. */
  readonly peers?: Peers
  readonly startWorker: StartWorker
  /** Facts of the workers that are started here. */
  readonly localWorker: WorkerFacts
  /** Trainers that can compute gradients here, as far as is known by now. Default: ONNX Runtime alone. */
  readonly localTrainers?: () => readonly TrainerName[]
  /** Attempts that may run at once on this machine. */
  readonly trainWorkers: number
  /** Base models that this server has, where others may have more. Absent: jobs of all are claimed. */
  readonly baseModels?: (() => readonly string[]) | undefined
  /** Whether the machine has memory for one more job; asked only while others run that have made a step. Default: it has. */
  readonly hasRoom?: () => boolean
  readonly timing: JobTiming
  /** Workers that come as there is work; null: none come by themselves. Default: none do. */
  readonly supply?: () => WorkerSupply | null
  /** Training sessions, which take turns with jobs. Absent: there are none. */
  readonly sessions?: SessionSource
}

/** Training sessions as the queue has to do with them. */
interface SessionSource extends WorkSource {
  /** Time has passed: called as often as leases are looked at. */
  tick(): void
}

/** Times after which the queue gives up on a worker, and tries again. */
export interface JobTiming {
  /** A job whose worker is not known to live is given away after this silence. */
  readonly leaseMs: number
  /** Time a worker may take from its start to its first request. */
  readonly startMs: number
  /** Time in which a worker that answers may make no progress. */
  readonly stallMs: number
  /** Pause before a job that lost its worker runs again; grows with each loss. */
  readonly backoffMs: number
  /** Time between two looks at leases and cancels. */
  readonly sweepMs: number
  /** Time a worker may take to honour a cancel before it is killed. */
  readonly cancelGraceMs: number
  /** Time that a training session which never pauses has its worker while others wait. */
  readonly sessionTurnMs: number
  /** A request of a session that has not come although later ones have waited so long for it is given up. */
  readonly sessionGapMs: number
}

export const DEFAULT_JOB_TIMING: JobTiming = {
  leaseMs: SERVICE_DEFAULTS.jobLeaseMs,
  startMs: SERVICE_DEFAULTS.workerStartTimeoutMs,
  stallMs: SERVICE_DEFAULTS.workerStallTimeoutMs,
  backoffMs: RESTART_BACKOFF_MS,
  sweepMs: 500,
  cancelGraceMs: 15_000,
  sessionTurnMs: 15_000,
  sessionGapMs: 60_000,
}

interface Claims {
  /**
   * A worker of another machine asks for work. What it claimed before and has not ended is queued again.
   *
   * @returns null after the wait, when `signal` aborts, and at the end of the server
   */
  claim(worker: RemoteWorker, options: RemoteClaimOptions): Promise<Work | null>
  /**
   * Workers of this name on other machines have ended, as whoever started them says: what they had is queued again.
   *
   * @returns whether they were given something, as far as this process has seen
   */
  workersEnded(name: string, reason: string): Promise<boolean>
}

export interface Dispatcher extends Reach, Claims {
  start(): void
  /** Looks for work now instead of at the next sweep. */
  wake(): void
  noteContact: JobAttempts['noteContact']
  /** Jobs that workers of this machine run. */
  runningCount(): number
  /** Workers of other machines that wait, train, or were heard of lately. */
  remoteWorkers(): readonly RemoteWorkerState[]
  /** A sweep failed: what the system check reports; null while all is well. */
  lastError(): string | null
  /** Starts nothing more, kills the workers that have jobs, waits for them; their jobs are queued again. */
  stop(): Promise<void>
}

export interface RemoteClaimOptions extends RemoteWait {
  /** End of the claim before, if that had none; null when the worker knows of none. */
  readonly left: WorkerEnd | null
  /** The worker wants no more: only what it left is queued again. */
  readonly isLeaving: boolean
}

export interface RemoteWorkerState extends WorkerFacts, WorkerKind {
  readonly isBusy: boolean
}

/** A living worker may miss this many leases before it counts as frozen. */
export const SILENT_LEASES = 10
/** Time in which a worker on another machine starts its process and asks for the work that it claimed. */
const REMOTE_START_MS = 60_000
/** A worker on another machine that neither waits nor trains is forgotten after this time. */
const FORGET_MS = 60_000

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { db, ids, logger, signals, timing, peers = alone, sessions } = options
  const { leaseMs, startMs, stallMs, sweepMs } = timing
  const owner = localOwner(peers.id ?? ids.uuid())
  const limits: AttemptLimits = { startMs, silenceMs: SILENT_LEASES * leaseMs, stallMs }
  const baseModels = (): readonly string[] | undefined => options.baseModels?.()
  let timer: NodeJS.Timeout | null = null
  let failure: string | null = null

  const leases = createLeaseWatch({ db, ids, owner, timing, peers })
  const jobs = createJobAttempts({
    ...{ db, ids, logger, signals, timing, leases, limits },
    hearsAll: !peers.isShared,
    onChange: wake,
    onError: report,
  })
  const local = createLocalWorkers({
    ...{ owner, leaseMs, count: options.trainWorkers, facts: options.localWorker, startWorker: options.startWorker },
    claimant: (): Claimant => ({
      ...{ tenant: null, memoryBytes: null, baseModels: baseModels() },
      trainers: options.localTrainers?.() ?? ['onnx'],
    }),
    hasRoom: async () => options.hasRoom === undefined || ((await jobs.haveAllStepped()) && options.hasRoom()),
  })
  const remote = createRemoteWorkers({
    ...{ baseModels, forgetTicks: FORGET_MS / sweepMs },
    leaseMs: Math.max(leaseMs, Math.min(startMs, REMOTE_START_MS)),
  })
  const scheduler = createScheduler({
    sources: sessions === undefined ? [jobs] : [jobs, sessions],
    pools: [local, remote],
    turnMs: timing.sessionTurnMs,
    judge: jobs.judge,
    onLook: (error) => {
      if (error === null) failure = null
      else {
        leases.lost()
        report(error)
      }
    },
  })

  function report(error: unknown): void {
    failure = error instanceof Error ? error.message : String(error)
    logger.error({ err: error }, 'job.dispatch_failed')
  }

  function wake(): void {
    if (timer !== null) scheduler.wake()
  }

  const kinds = (): readonly WorkerKind[] => [...local.kinds(), ...remote.list()]

  return {
    ...createReach({ peers, kinds, baseModels, supply: () => options.supply?.() ?? null }),
    wake,
    start: () => {
      timer = setInterval(() => {
        jobs.tick()
        sessions?.tick()
        remote.tick()
        wake()
      }, sweepMs)
      wake()
    },
    noteContact: jobs.noteContact,
    ...createClaims(jobs, remote, wake),
    runningCount: jobs.localCount,
    remoteWorkers: () =>
      remote.list().map(({ id, name, trainer, device, versions, trainers, memoryBytes }) => ({
        ...{ name, trainer, device, versions, trainers, memoryBytes },
        isBusy: remote.isBusy(id),
      })),
    lastError: () => failure,
    stop: async () => {
      if (timer !== null) clearInterval(timer)
      remote.close()
      await jobs.stop(scheduler.stop())
    },
  }
}

/** Workers of other machines as they come and go. What they left waits again before they are given more. */
function createClaims(jobs: JobAttempts, remote: RemoteWorkers, wake: () => void): Claims {
  async function leave(worker: RemoteWorker, end: WorkerEnd): Promise<void> {
    await jobs.leave(worker, end)
    remote.leave(worker.id, end)
  }

  return {
    claim: async (worker, claimOptions) => {
      const { left, isLeaving } = claimOptions
      remote.supersede(worker.id)
      if (isLeaving) remote.forget(worker.id)
      // it knows of no attempt: the answer to its last claim was lost on the way
      await leave(worker, left ?? { reason: 'its worker never heard of it', isOrderly: true })
      const waiting = isLeaving ? null : remote.wait(worker, claimOptions)
      wake()
      return waiting
    },
    workersEnded: async (name, reason) => {
      for (const worker of remote.list()) {
        if (worker.name !== name) continue
        remote.forget(worker.id)
        await leave(worker, { reason, isOrderly: false })
        wake()
      }
      return remote.takeWorked(name)
    },
  }
}
