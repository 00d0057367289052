/**
 * Attempts at jobs: claimed for a worker, watched while they run, and released when their worker is gone, stands still or
 * ignores a cancel.
 *
 * A worker of another machine is known by what it sends alone: its lease decides whether it lives. Where servers share the
 * database it may send to another one, and only the rows tell whether it moves on (`lease-watch.ts`).
 */
import type { Logger } from '#base/logging/logger.js'
import type { IdSource } from '#base/util/ids.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { findClaimableJob } from '#service/storage/jobs/states.js'
import { findJob } from '#service/storage/training-jobs.js'
import { type AttemptLimits, type AttemptWatch, watchAttempt } from './attempt-watch.js'
import type { LeaseWatch } from './lease-watch.js'
import { type ClaimedJob, claimNextJob, remoteOwner } from './queue.js'
import { type LostAttempt, releaseAttempt, releaseClaims } from './recovery.js'
import { absentWorker } from './remote-workers.js'
import type { JobSignals } from './signals.js'
import type { RunningWorker, WorkerEnd, WorkSource } from './work.js'

interface JobAttemptsOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly logger: Logger
  readonly signals: JobSignals
  readonly leases: LeaseWatch
  /** Whether all that workers of other machines send comes to this server. */
  readonly hearsAll: boolean
  readonly limits: AttemptLimits
  readonly timing: { readonly backoffMs: number; readonly sweepMs: number; readonly cancelGraceMs: number }
  /** An attempt is over: its worker is free, and its job may wait again. */
  readonly onChange: () => void
  readonly onError: (error: unknown) => void
}

export interface JobAttempts extends WorkSource {
  /** A worker sent a request. @param progress see `AttemptWatch.note` */
  noteContact(attempt: { readonly jobId: string; readonly attempt: number }, progress: number | 'moved' | null): void
  /** Judges what runs: leases, silence, and cancels that are not heard. */
  judge(): Promise<void>
  /** A worker of another machine has left what it claimed, through whichever server: it waits again. */
  leave(worker: { readonly id: string; readonly name: string }, left: WorkerEnd): Promise<void>
  /** Attempts that workers of this machine make. */
  localCount(): number
  /** Whether each of those has made a step: until then nobody can tell what its worker will hold. */
  haveAllStepped(): Promise<boolean>
  /** Time has passed: another `sweepMs`. */
  tick(): void
  /** Kills the workers of this machine and waits for them; their jobs wait again. @param started when nothing more is started */
  stop(started: Promise<void>): Promise<void>
}

interface Attempt {
  readonly jobId: string
  readonly attempt: number
  readonly worker: RunningWorker
  readonly isLocal: boolean
  /** Steps of the job when this attempt began. */
  readonly stepsBefore: number
  readonly watch: AttemptWatch
  /** Whether its job is over, or is to be. */
  isCondemned: boolean
  condemnedTicks: number
}

/** The end of an attempt in the database, said to whoever follows its job. */
function createReleases({ db, ids, logger, signals, timing: { backoffMs } }: JobAttemptsOptions) {
  return {
    release: async (lost: LostAttempt): Promise<void> => {
      const status = await releaseAttempt(db, ids, { ...lost, backoffMs })
      if (status === null) return
      const facts = { job_id: lost.jobId, attempt: lost.attempt, reason: lost.reason }
      // a worker that is slow to hear of it is killed
      if (status === 'cancelled') logger.info(facts, 'job.cancelled')
      else logger.warn({ ...facts, status }, 'job.worker_lost')
      signals.notify(lost.jobId)
    },
    releaseClaims: async (workerId: string, left: WorkerEnd) =>
      releaseClaims(db, ids, remoteOwner(workerId), { ...left, backoffMs }),
  }
}

/** Attempts that run, as far as this process knows, each until its worker has ended. */
function createRunningAttempts(
  { limits, timing: { sweepMs }, signals, onChange, onError }: JobAttemptsOptions,
  release: (lost: LostAttempt) => Promise<void>,
) {
  const attempts = new Set<Attempt>()
  const endings = new Set<Promise<void>>()
  let isStopped = false
  const local = (): readonly Attempt[] => [...attempts].filter(({ isLocal }) => isLocal)

  function follow(known: Pick<Attempt, 'jobId' | 'attempt' | 'worker' | 'isLocal' | 'stepsBefore'>): Attempt {
    const { jobId, attempt, worker } = known
    const one: Attempt = { ...known, watch: watchAttempt(limits, sweepMs), isCondemned: false, condemnedTicks: 0 }
    attempts.add(one)
    const ending = worker.ended.then(async ({ reason, isOrderly }) => {
      attempts.delete(one)
      await release({ jobId, attempt, reason, isOrderly: isOrderly || isStopped })
      signals.notify(jobId)
      onChange()
    })
    const settled = ending.catch(onError).finally(() => endings.delete(settled))
    // workers of other machines outlive this process
    if (known.isLocal) endings.add(settled)
    return one
  }

  return {
    attempts,
    local,
    follow,
    /** Takes it from workers of other machines that have lost it in the database. */
    forgetRemote: (jobId: string): void => {
      for (const one of attempts) if (!one.isLocal && one.jobId === jobId) one.worker.kill()
    },
    stop: async (started: Promise<void>): Promise<void> => {
      isStopped = true
      await started
      for (const { worker } of local()) worker.kill()
      await Promise.all(endings)
    },
  }
}

export function createJobAttempts(options: JobAttemptsOptions): JobAttempts {
  const { db, ids, logger, signals, leases, hearsAll } = options
  const { sweepMs, cancelGraceMs } = options.timing
  const { release, releaseClaims } = createReleases(options)
  const { attempts, local, follow, forgetRemote, stop } = createRunningAttempts(options, release)

  function begin({ job }: ClaimedJob, worker: RunningWorker): void {
    const { id: jobId, modelId, kind, attempt, gradientSteps: stepsBefore } = job
    logger.info({ job_id: jobId, model_id: modelId, kind, attempt, worker: worker.facts.name }, 'job.started')
    follow({ jobId, attempt, worker, stepsBefore, isLocal: worker.remoteId === null })
    signals.notify(jobId)
  }

  async function judgeLeases(): Promise<void> {
    const { stalled, lost, renewed } = await leases.look(local())
    for (const jobId of stalled) {
      logger.warn({ job_id: jobId, reason: 'no progress' }, 'job.worker_lost')
      forgetRemote(jobId)
      signals.notify(jobId)
    }
    for (const jobId of lost) {
      logger.warn({ job_id: jobId }, 'job.lease_expired')
      signals.notify(jobId)
    }
    for (const jobId of renewed) logger.debug({ job_id: jobId }, 'job.lease_renewed')
  }

  /** The fence comes first: whatever the process still does, and whenever it dies, changes nothing. */
  async function giveUpStuck({ jobId, attempt, watch, worker, isLocal }: Attempt): Promise<void> {
    if (!isLocal && !hearsAll) return
    const reason = watch.verdict()
    if (reason === null) return
    await release({ jobId, attempt, reason, isOrderly: false })
    worker.kill()
  }

  async function condemn(one: Attempt): Promise<void> {
    const job = await findJob(db, one.jobId)
    const isOver = job === null || job.status !== 'running' || job.attempt !== one.attempt
    one.isCondemned = isOver || job.isCancelRequested
    // a worker of another machine that ignores a cancel loses its lease with its next step, or stalls
    if (one.isLocal ? one.condemnedTicks * sweepMs > cancelGraceMs : isOver) one.worker.kill()
  }

  return {
    kind: 'job',
    claim: async (worker) => {
      const claimed = await claimNextJob(db, ids, worker)
      if (claimed === null) return null
      const { job, baseModel, token } = claimed
      const { id, attempt, modelId } = job
      return {
        work: { kind: 'job', id, attempt, token, modelId, baseModel },
        begin: (running) => begin(claimed, running),
        giveBack: () =>
          release({ jobId: id, attempt, reason: 'its worker went away', isOrderly: true, isUnmade: true }),
      }
    },
    isWaiting: async (worker) => (await findClaimableJob(db, worker)) !== null,
    // a job has its worker to its end
    preemptible: () => [],
    noteContact: ({ jobId, attempt }, progress) => {
      let known = [...attempts].find((one) => one.jobId === jobId && one.attempt === attempt)
      if (known === undefined && !hearsAll) return
      // an attempt on another machine that began before this process did
      known ??= follow({ jobId, attempt, worker: absentWorker(null), isLocal: false, stepsBefore: 0 })
      known.watch.note(progress)
    },
    judge: async () => {
      await judgeLeases()
      for (const one of attempts) await giveUpStuck(one)
      for (const one of attempts) await condemn(one)
    },
    leave: async ({ id, name }, left) => {
      for (const jobId of await releaseClaims(id, left)) {
        logger.warn({ job_id: jobId, worker: name, reason: left.reason }, 'job.worker_lost')
        forgetRemote(jobId)
        signals.notify(jobId)
      }
    },
    localCount: () => local().length,
    haveAllStepped: async () => {
      for (const { jobId, stepsBefore } of local()) {
        const job = await findJob(db, jobId)
        if (job !== null && job.gradientSteps <= stepsBefore) return false
      }
      return true
    },
    tick: () => {
      leases.tick()
      for (const one of attempts) {
        one.watch.tick()
        if (one.isCondemned) one.condemnedTicks += 1
      }
    },
    stop,
  }
}
