/**
 * Workers of other machines, as they ask for work: who waits, who has work, and who was heard of lately. Knows neither HTTP
 * nor the database.
 *
 * Kept in memory: after a start of the server the workers ask again, and which jobs they run stands in the database.
 */
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { Claimant, JobOwner } from '#service/storage/jobs/states.js'
import { remoteOwner } from './queue.js'
import type { FreeWorker, RunningWorker, Work, WorkerEnd, WorkerPool } from './work.js'

/** One attempt at a time, so a machine that makes several is several of these. */
export interface RemoteWorker extends WorkerFacts, Claimant {
  readonly id: string
  /** Whose jobs it may have: those its key sees. */
  readonly tenant: JobOwner
}

export interface RemoteWait {
  readonly waitMs: number
  /** Aborts when the worker has gone. */
  readonly signal: AbortSignal
}

export interface RemoteWorkers extends WorkerPool {
  /**
   * Waits for work; null after the time, and at the end of the server.
   *
   * @throws {AppError} `too_many_workers` where its entity has as many as are remembered
   */
  wait(worker: RemoteWorker, options: RemoteWait): Promise<Work | null>
  /** Whether a worker of this name was given something since it was first heard of; asked once, for then it is forgotten. */
  takeWorked(name: string): boolean
  /** Ends earlier waits of a worker: their connections are closed. */
  supersede(id: string): void
  /** A worker has left whatever it had. */
  leave(id: string, end: WorkerEnd): void
  forget(id: string): void
  /** Time has passed: those not heard of for long are forgotten. */
  tick(): void
  /** Workers that wait or have work, and those heard of lately. */
  list(): readonly RemoteWorker[]
  /** Whether it has work. */
  isBusy(id: string): boolean
  /** Nobody gets anything any more. */
  close(): void
}

interface Waiting {
  readonly worker: RemoteWorker
  /** @returns false if nobody is there any more */
  give(work: Work | null): boolean
}

/** Workers of one entity that are remembered: each is one attempt at a time. */
export const MOST_OF_ENTITY = 1000
/** Names of those that were given something: who asks for them forgets them. */
const MOST_NAMES = 10_000
/** Time for a look at the queue, however short the wait. */
const LOOK_MS = 1000

interface RemoteWorkersOptions {
  /** Ticks without a word after which a worker that neither waits nor has work is forgotten. */
  readonly forgetTicks: number
  /** Lease of a claim, in which its worker starts a process. */
  readonly leaseMs: number
  /** Base models of whose jobs the server has the files; absent: all. */
  readonly baseModels: () => readonly string[] | undefined
}

/** Workers that were heard of lately, and names of those that were given something. */
function createRegister(forgetTicks: number) {
  const heard = new Map<string, { readonly worker: RemoteWorker; silentTicks: number }>()
  const worked = new Set<string>()
  return {
    heard,
    hear: (worker: RemoteWorker): void => void heard.set(worker.id, { worker, silentTicks: 0 }),
    /** @throws {AppError} `too_many_workers` */
    assertRoom: ({ id, tenant }: RemoteWorker): void => {
      if (heard.has(id)) return
      let count = 0
      for (const { worker } of heard.values()) if (worker.tenant.entity === tenant.entity) count += 1
      if (count < MOST_OF_ENTITY) return
      throw new AppError('rate_limited', 'too_many_workers', `"${tenant.entity}" has ${count} workers already`, {
        hint: 'a worker that does not ask for work is forgotten within minutes',
        details: { retry_after_seconds: 60 },
      })
    },
    noteWorked: (name: string): void => {
      worked.add(name)
      const [oldest] = worked
      if (worked.size > MOST_NAMES && oldest !== undefined) worked.delete(oldest)
    },
    takeWorked: (name: string): boolean => worked.delete(name),
    tick: (isPresent: (id: string) => boolean): void => {
      for (const [id, entry] of heard) {
        entry.silentTicks = isPresent(id) ? 0 : entry.silentTicks + 1
        if (entry.silentTicks > forgetTicks) heard.delete(id)
      }
    },
  }
}

export function createRemoteWorkers({ forgetTicks, leaseMs, baseModels }: RemoteWorkersOptions): RemoteWorkers {
  const waiting = new Set<Waiting>()
  const running = new Map<string, AbsentWorker>()
  const { heard, hear, assertRoom, noteWorked, takeWorked, tick } = createRegister(forgetTicks)
  let isClosed = false

  function toFree({ id, name, trainer, device, versions, tenant, trainers, memoryBytes }: RemoteWorker): FreeWorker {
    return {
      ...{ owner: remoteOwner(id), leaseMs, worker: { name, trainer, device, versions }, remoteId: id },
      ...{ tenant, trainers, memoryBytes, baseModels: baseModels() },
      group: JSON.stringify([tenant.entity, tenant.project, trainers, memoryBytes]),
    }
  }

  return {
    wait: async (worker, { waitMs, signal }) => {
      assertRoom(worker)
      return new Promise((resolve) => {
        hear(worker)
        let isOver = false
        const entry: Waiting = {
          worker,
          give: (work) => {
            if (isOver) return false
            isOver = true
            clearTimeout(timer)
            waiting.delete(entry)
            signal.removeEventListener('abort', leave)
            hear(worker)
            if (work !== null) noteWorked(worker.name)
            resolve(work)
            return true
          },
        }
        const leave = (): void => void entry.give(null)
        const timer = setTimeout(leave, Math.max(waitMs, LOOK_MS))
        signal.addEventListener('abort', leave, { once: true })
        waiting.add(entry)
        if (signal.aborted || isClosed) leave()
      })
    },
    free: async (idle) => {
      for (const { worker } of waiting) {
        const free = toFree(worker)
        if (!idle.has(free.group)) return free
      }
      return null
    },
    start: ({ remoteId, worker: facts }, work) => {
      const entry = [...waiting].find(({ worker }) => worker.id === remoteId)
      if (remoteId === null || entry?.give(work) !== true) return null
      const started = absentWorker(remoteId, facts.name)
      running.set(remoteId, started)
      void started.ended.then(() => {
        if (running.get(remoteId) === started) running.delete(remoteId)
      })
      return started
    },
    // those who rest keep a worker from nobody who could have another one
    taken: () => {
      if (waiting.size > 0) return []
      return [...heard.values()].filter(({ worker }) => running.has(worker.id)).map(({ worker }) => toFree(worker))
    },
    takeWorked,
    supersede: (id) => {
      for (const entry of [...waiting]) if (entry.worker.id === id) entry.give(null)
    },
    leave: (id, end) => running.get(id)?.leave(end),
    forget: (id) => void heard.delete(id),
    tick: () => {
      const present = new Set([...waiting].map(({ worker }) => worker.id))
      tick((id) => present.has(id) || running.has(id))
    },
    isBusy: (id) => running.has(id),
    list: () => [...heard.values()].map(({ worker }) => worker),
    close: () => {
      isClosed = true
      for (const entry of [...waiting]) entry.give(null)
    },
  }
}

/**
 * A worker of another machine as one that was started here: it ends when it says so, or when it was silent for too long and
 * is fenced off.
 */
interface AbsentWorker extends RunningWorker {
  leave(end: WorkerEnd): void
}

/** @param remoteId null: not known, of an attempt that began before this process did */
export function absentWorker(remoteId: string | null, name = 'a worker of another machine'): AbsentWorker {
  const { promise: ended, resolve: leave } = createDeferred<WorkerEnd>()
  const kill = (): void => leave({ reason: 'its worker on another machine was given up', isOrderly: false })
  return { ...{ remoteId, pid: null, facts: { name } }, ended, leave, kill }
}
