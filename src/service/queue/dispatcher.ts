/**
 * Gives queued jobs to workers and watches them: claims, starts, renews the leases of those that live, gives up those that
 * do not move on (`attempt-watch.ts`), stops workers that ignore a cancel.
 *
 * Workers of this machine get jobs first, then those of other machines that wait for one (`remote-workers.ts`): both by the same claim,
 * one after the other. Of the latter nothing is known but what they send: their leases decide whether they live.
 *
 * Does not know how a worker is started (`StartWorker` is injected) and never touches training itself.
 */

import type { Logger } from '#base/logging/logger.js'
import type { IdSource } from '#base/util/ids.js'
import { SERVICE_DEFAULTS, type TrainerName } from '#contract/settings/service.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { type Claimant, findClaimableJob } from '#service/storage/jobs/states.js'
import { findJob } from '#service/storage/training-jobs.js'
import { type AttemptLimits, type AttemptWatch, watchAttempt } from './attempt-watch.js'
import { createBesideWatch } from './beside-watch.js'
import { type ClaimedJob, claimNextJob, localOwner, remoteOwner } from './queue.js'
import { expireLeases, type LostAttempt, RESTART_BACKOFF_MS, releaseAttempt, releaseClaims } from './recovery.js'
import { createRemoteWorkers, type RemoteClaim, type RemoteWait, type RemoteWorker } from './remote-workers.js'
import type { JobSignals } from './signals.js'
import { type JobNeeds, type WorkerKind, whyNobodyTakes } from './takers.js'
import type { WorkerSharer } from './worker-sharer.js'

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

export interface DispatcherOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly logger: Logger
  readonly signals: JobSignals
  readonly startWorker: StartWorker
  /** What is known of the workers that are started here. */
  readonly localWorker: WorkerFacts
  /** What can compute gradients here, as far as is known by now. Default: ONNX Runtime alone. */
  readonly localTrainers?: () => readonly TrainerName[]
  /** Jobs that may run at once. */
  readonly trainWorkers: number
  /** By which other servers on the database know this one. Absent: there are none, and what is not known here is of nobody. */
  readonly serverId?: string | undefined
  /** After which silence another server counts as gone. Default 0 */
  readonly serverLeaseMs?: number
  /** Calls it when the database's connection is back. */
  readonly onMissed?: (listener: () => void) => void
  /** Base models that this server has, where others may have more. Absent: jobs of all are taken. */
  readonly baseModels?: (() => readonly string[]) | undefined
  /** Whether other servers live, whose workers are not known here. Default: none do. */
  readonly hasOthers?: () => boolean
  /** Whether the machine has memory for one more job; asked only while others run that have made a step. Default: it has. */
  readonly hasRoom?: () => boolean
  readonly timing: JobTiming
  /** What is wrong with workers that come as there is work; null: none come by themselves. Default: none do. */
  readonly placementNotes?: () => readonly string[] | null
  /** What those could take, as far as that is known. Default: anything. */
  readonly placementKinds?: () => readonly WorkerKind[]
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
  /** How long a training session that never pauses has its worker while others wait. */
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

export interface Dispatcher {
  start(): void
  /** Looks for work now instead of at the next sweep. */
  wake(): void
  /** A worker sent a request. @param progress see `AttemptWatch.note` */
  noteContact(attempt: { readonly jobId: string; readonly attempt: number }, progress: number | 'moved' | null): void
  /**
   * A worker of another machine asks for a job. What it claimed before and has not ended is queued again.
   *
   * @returns null after the wait, when `signal` aborts, and at the end of the server
   */
  claim(worker: RemoteWorker, options: RemoteClaimOptions): Promise<RemoteClaim | null>
  /** Why nobody takes a job that waits, in a sentence; null where somebody can, sooner or later. @param baseModel null: not known */
  whyNobody(job: JobNeeds, baseModel: string | null): string | null
  /** Whether neither the workers that there are nor those that may come could take it. */
  isRefused(job: JobNeeds): boolean
  /** What is wrong with workers that are to come, in sentences. */
  notes(): readonly string[]
  /**
   * Workers of this name on other machines have ended, as whoever started them says: what they had is queued again.
   *
   * @returns whether they were given something, as far as this process has seen
   */
  gone(name: string, reason: string): Promise<boolean>
  /** Jobs that workers of this machine run. */
  runningCount(): number
  /** Workers of other machines that wait, train, or were heard of lately. */
  remoteWorkers(): readonly RemoteWorkerState[]
  /** A sweep failed: what the system check reports; null while all is well. */
  lastError(): string | null
  /** Starts nothing more, kills the workers, waits for them; their jobs are queued again by `releaseAttempt`. */
  stop(): Promise<void>
}

export interface RemoteClaimOptions extends RemoteWait {
  /** What became of the claim before, if that had no end; null when it knows of none. */
  readonly left: { readonly reason: string; readonly isOrderly: boolean } | null
  /** It wants no job: only what it left is queued again. */
  readonly isLeaving: boolean
}

export interface RemoteWorkerState extends WorkerFacts, WorkerKind {
  readonly isBusy: boolean
}

interface Slot {
  readonly jobId: string
  /** Null on another machine. */
  readonly worker: RunningWorker | null
  /** Of a worker on another machine, as far as this process has seen it claim. */
  readonly remoteId: string | null
  readonly attempt: number
  /** Steps of the job when this attempt began. */
  readonly stepsBefore: number
  readonly watch: AttemptWatch
  cancelTicks: number
}

/** A living worker may miss this many leases before it counts as frozen. */
export const SILENT_LEASES = 10
/** Time in which a worker on another machine starts its process and asks for the job that it claimed. */
const REMOTE_START_MS = 60_000
/** A worker on another machine that neither waits nor trains is forgotten after this time. */
const FORGET_MS = 60_000
/** A worker of which nothing is known. */
const ANYTHING: WorkerKind = { trainers: ['onnx', 'torch'], memoryBytes: null }

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { db, ids, logger, signals } = options
  const { leaseMs, startMs, stallMs, backoffMs, sweepMs, cancelGraceMs } = options.timing
  const { serverId } = options
  const owner = localOwner(serverId ?? ids.uuid())
  const limits: AttemptLimits = {
    startMs,
    silenceMs: SILENT_LEASES * leaseMs,
    stallMs,
  }
  const remote = createRemoteWorkers(FORGET_MS / sweepMs)
  const slots = new Set<Slot>()
  const endings = new Set<Promise<void>>()
  let timer: NodeJS.Timeout | null = null
  let isStopped = false
  let failure: string | null = null
  let sweeping: Promise<void> | null = null
  let isWoken = false
  /** Who had the last turn of those that share the workers. */
  let wasJob = false
  let wasRemoteJob = false
  const sharer = (): WorkerSharer | undefined => options.sharer?.()
  const baseModels = () => ({ baseModels: options.baseModels?.() })
  const here = (): Claimant => ({
    tenant: null,
    trainers: options.localTrainers?.() ?? ['onnx'],
    memoryBytes: null,
    ...baseModels(),
  })
  const kinds = (): readonly WorkerKind[] => [...(options.trainWorkers > 0 ? [here()] : []), ...remote.list()]
  const beside =
    serverId === undefined ? null : createBesideWatch({ ...options, owner, serverLeaseMs: options.serverLeaseMs ?? 0 })
  options.onMissed?.(() => beside?.lost())

  async function sweep(): Promise<void> {
    for (const jobId of (await beside?.look(localSlots().map((slot) => slot.jobId))) ?? []) {
      logger.warn({ job_id: jobId, reason: 'no progress' }, 'job.worker_lost')
      forgetRemote(jobId)
      signals.notify(jobId)
    }
    const { lost, renewed } = await expireLeases(db, ids, {
      ...{ living: localSlots(), leaseMs, serverId },
      mayJudgeOthers: beside?.mayJudge(),
    })
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
      const claimed = await claimNextJob(db, ids, { ...here(), owner, leaseMs, worker: options.localWorker })
      if (claimed !== null) {
        wasJob = true
        launch(claimed)
      } else if (!(await startSharer())) break
    }
    await askForRoom()
    if (isStopped) return
    await remote.serve(claimFor, giveBack)
    await askForRoomElsewhere()
  }

  function usedWorkers(): number {
    return localSlots().length + (sharer()?.count() ?? 0)
  }

  async function startSharer(): Promise<boolean> {
    const isStarted = (await sharer()?.startNext()) === true
    if (isStarted) wasJob = false
    return isStarted
  }

  async function askForRoom(): Promise<void> {
    const other = sharer()
    if (isStopped || other === undefined || other.count() === 0 || usedWorkers() < options.trainWorkers) return
    if (other.isWaiting() || (await findClaimableJob(db, here())) !== null) other.makeRoom(null)
  }

  /** Sessions that rest keep a worker of another machine from nobody who could have it. */
  async function askForRoomElsewhere(): Promise<void> {
    const other = sharer()
    if (other === undefined || remote.isWaiting()) return
    for (const worker of other.elsewhere()) {
      if ((await other.isWaitingFor(worker)) || (await findClaimableJob(db, { ...worker, ...baseModels() })) !== null)
        other.makeRoom(worker.id)
    }
  }

  const localSlots = (): readonly (Slot & { readonly worker: RunningWorker })[] =>
    [...slots].filter((slot): slot is Slot & { readonly worker: RunningWorker } => slot.worker !== null)

  /** Ids of workers of other machines that have a job or a session. */
  function busyElsewhere(): ReadonlySet<string> {
    const held = sharer()?.elsewhere() ?? []
    return new Set([...[...slots].flatMap(({ remoteId }) => remoteId ?? []), ...held.map(({ id }) => id)])
  }

  /** Jobs and sessions take turns here too. */
  async function claimFor(worker: RemoteWorker): Promise<RemoteClaim | null> {
    const before = wasRemoteJob ? await sharer()?.startFor(worker) : null
    const claimed = before ?? (await claimJobFor(worker)) ?? (wasRemoteJob ? null : await sharer()?.startFor(worker))
    wasRemoteJob = claimed?.isSession === false
    return claimed ?? null
  }

  async function claimJobFor(worker: RemoteWorker): Promise<RemoteClaim | null> {
    const { id, name, trainer, device, versions, tenant, trainers, memoryBytes } = worker
    const claimed = await claimNextJob(db, ids, {
      owner: remoteOwner(id),
      leaseMs: Math.max(leaseMs, Math.min(startMs, REMOTE_START_MS)),
      worker: { name, trainer, device, versions },
      ...{ tenant, trainers, memoryBytes, ...baseModels() },
    })
    if (claimed === null) return null
    note(claimed, { worker: null, remoteId: id })
    const { job, token } = claimed
    return { jobId: job.id, attempt: job.attempt, token, modelId: job.modelId, isSession: false }
  }

  async function giveBack({ jobId, attempt, isSession }: RemoteClaim, worker: RemoteWorker): Promise<void> {
    const how = { reason: 'its worker went away', isOrderly: true }
    if (isSession) sharer()?.left(worker.id, how)
    else await release({ jobId, attempt, ...how })
  }

  async function claim(worker: RemoteWorker, claimOptions: RemoteClaimOptions): Promise<RemoteClaim | null> {
    const { left, isLeaving } = claimOptions
    remote.supersede(worker.id)
    // it knows of no attempt: the answer to its last claim was lost on the way
    const lost = left ?? { reason: 'its worker never heard of it', isOrderly: true }
    if (isLeaving) {
      await leave(worker, lost)
      return null
    }
    await releaseAll(worker, lost)
    const waiting = remote.wait(worker, claimOptions)
    wake()
    return waiting
  }

  type Lost = Pick<LostAttempt, 'reason' | 'isOrderly'>

  /** It asks for nothing more. */
  async function leave(worker: RemoteWorker, lost: Lost): Promise<void> {
    remote.forget(worker.id)
    await releaseAll(worker, lost)
    wake()
  }

  async function releaseAll(worker: RemoteWorker, lost: Lost): Promise<void> {
    for (const jobId of await releaseClaims(db, ids, remoteOwner(worker.id), { ...lost, backoffMs })) {
      logger.warn({ job_id: jobId, worker: worker.name, reason: lost.reason }, 'job.worker_lost')
      forgetRemote(jobId)
      signals.notify(jobId)
    }
    sharer()?.left(worker.id, lost)
  }

  function forgetRemote(jobId: string): void {
    for (const slot of slots) if (slot.worker === null && slot.jobId === jobId) slots.delete(slot)
  }

  /** What a worker will hold shows with its first step: until then nobody can tell what is left. */
  async function hasRoom(): Promise<boolean> {
    if (options.hasRoom === undefined) return true
    for (const { jobId, stepsBefore } of localSlots()) {
      const job = await findJob(db, jobId)
      if (job !== null && job.gradientSteps <= stepsBefore) return false
    }
    return options.hasRoom()
  }

  /** Fences first: whatever the process still does, and whenever it dies, changes nothing. */
  async function giveUpStuck({ jobId, attempt, watch, worker }: Slot): Promise<void> {
    // it may send all that it sends to another server
    if (worker === null && serverId !== undefined) return
    const reason = watch.verdict()
    if (reason === null) return
    await release({ jobId, attempt, reason, isOrderly: false })
    worker?.kill()
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
      if (slot.worker === null) {
        // one that ignores a cancel loses its lease with its next step, or stalls
        if (isOver) slots.delete(slot)
        continue
      }
      slot.cancelTicks += 1
      if (slot.cancelTicks * sweepMs > cancelGraceMs) slot.worker.kill()
    }
  }

  /** Begins to watch an attempt. */
  function note({ job }: ClaimedJob, by: Pick<Slot, 'worker' | 'remoteId'>): Slot {
    const { id: jobId, modelId, kind, attempt } = job
    logger.info({ job_id: jobId, model_id: modelId, kind, attempt, worker: job.worker?.['name'] }, 'job.started')
    const stepsBefore = job.gradientSteps
    const slot = { jobId, attempt, stepsBefore, watch: watchAttempt(limits, sweepMs), cancelTicks: 0, ...by }
    slots.add(slot)
    signals.notify(jobId)
    return slot
  }

  function launch(claimed: ClaimedJob): void {
    const { job } = claimed
    const worker = options.startWorker(claimed)
    const slot = note(claimed, { worker, remoteId: null })
    const ending = worker.ended.then(async (reason) => {
      slots.delete(slot)
      await release({ jobId: job.id, attempt: job.attempt, reason, isOrderly: isStopped })
      signals.notify(job.id)
      wake()
    })
    const settled = ending.catch((error: unknown) => report(error)).finally(() => endings.delete(settled))
    endings.add(settled)
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
        beside?.lost()
        report(error)
      }
    }
  }

  return {
    wake,
    start: () => {
      timer = setInterval(() => {
        beside?.tick()
        for (const slot of slots) slot.watch.tick()
        sharer()?.tick()
        remote.tick(busyElsewhere())
        wake()
      }, sweepMs)
      wake()
    },
    noteContact: ({ jobId, attempt }, progress) => {
      const known = [...slots].find((slot) => slot.jobId === jobId && slot.attempt === attempt)
      if (known === undefined && serverId !== undefined) return
      const watch = known?.watch ?? watchAttempt(limits, sweepMs)
      watch.note(progress)
      // an attempt on another machine that began before this process did
      if (known === undefined)
        slots.add({ jobId, attempt, watch, worker: null, remoteId: null, stepsBefore: 0, cancelTicks: 0 })
    },
    claim,
    whyNobody: ({ trainer, weightBytes }, baseModel) => {
      // another server may know somebody
      if (options.hasOthers?.() === true) return null
      if (baseModel !== null && options.baseModels?.().includes(baseModel) === false) {
        return `this server does not have its base model ${baseModel}: start it with --base-model`
      }
      const workers = kinds()
      const coming = options.placementNotes?.() ?? null
      if (coming !== null && workers.length === 0) {
        const why = whyNobodyTakes({ trainer, weightBytes }, options.placementKinds?.() ?? [ANYTHING])
        return why ?? coming[0] ?? 'a worker is asked of the Ray cluster'
      }
      return whyNobodyTakes({ trainer, weightBytes }, workers) ?? coming?.[0] ?? null
    },
    isRefused: (job) =>
      options.hasOthers?.() !== true &&
      whyNobodyTakes(job, [...kinds(), ...(options.placementKinds?.() ?? [])]) !== null,
    notes: () => options.placementNotes?.() ?? [],
    gone: async (name, reason) => {
      for (const worker of remote.list()) if (worker.name === name) await leave(worker, { reason, isOrderly: false })
      return remote.takeWorked(name)
    },
    runningCount: () => localSlots().length,
    remoteWorkers: () => {
      const busy = busyElsewhere()
      return remote.list().map(({ id, name, trainer, device, versions, trainers, memoryBytes }) => ({
        ...{ name, trainer, device, versions, trainers, memoryBytes },
        isBusy: busy.has(id),
      }))
    },
    lastError: () => failure,
    stop: async () => {
      isStopped = true
      if (timer !== null) clearInterval(timer)
      remote.close()
      await sweeping
      for (const slot of localSlots()) slot.worker.kill()
      await Promise.all(endings)
    },
  }
}
