/**
 * Workers on other machines, as they ask for jobs: who waits, and who was heard of lately. Knows neither HTTP nor the database.
 *
 * Kept in memory: after a start of the server the workers ask again, and which jobs they run stands in the database.
 */
import { AppError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { Claimant, JobOwner } from '#service/storage/jobs/states.js'

/** One attempt at a time, so a machine that makes several is several of these. */
export interface RemoteWorker extends WorkerFacts, Claimant {
  readonly id: string
  /** Whose jobs it may have: those its key sees. */
  readonly tenant: JobOwner
}

/** What it is given: an attempt at a job or a training session, and what that proves itself with. */
export interface RemoteClaim {
  readonly jobId: string
  readonly attempt: number
  readonly token: string
  /** A process that trained this model before goes on without loading it again. */
  readonly modelId: string
  readonly isSession: boolean
}

export interface RemoteWait {
  readonly waitMs: number
  /** Aborts when the worker has gone. */
  readonly signal: AbortSignal
}

export interface RemoteWorkers {
  /** Waits for a job; null after the time, and at the end of the server. */
  /** @throws {AppError} `too_many_workers` where its entity has as many as are remembered */
  wait(worker: RemoteWorker, options: RemoteWait): Promise<RemoteClaim | null>
  /**
   * Gives jobs to those who wait, the longest first.
   *
   * @param claim the next job the worker may have
   * @param giveBack called with a claim whose worker went away meanwhile
   */
  serve(
    claim: (worker: RemoteWorker) => Promise<RemoteClaim | null>,
    giveBack: (claimed: RemoteClaim, worker: RemoteWorker) => Promise<void>,
  ): Promise<void>
  isWaiting(): boolean
  /** Whether a worker of this name was given something since it was first heard of; asked once, for then it is forgotten. */
  takeWorked(name: string): boolean
  /** Ends earlier waits of a worker: their connections are gone. */
  supersede(id: string): void
  forget(id: string): void
  /** Another moment has passed in which nobody needs to have been heard of. @param busy those who train, and do not ask meanwhile */
  tick(busy: ReadonlySet<string>): void
  /** Those who wait or train, and those heard of lately. */
  list(): readonly RemoteWorker[]
  /** Nobody gets anything any more. */
  close(): void
}

interface Waiting {
  readonly worker: RemoteWorker
  /** @returns false if nobody is there any more */
  give(claimed: RemoteClaim | null): boolean
}

/** Workers of one entity that are remembered: each is one attempt at a time. */
export const MOST_OF_ENTITY = 1000
/** Names of those that were given something: who asks for them forgets them. */
const MOST_NAMES = 10_000
/** Time for a look at the queue, however short the wait. */
const LOOK_MS = 1000

/** @param forgetTicks ticks without a word after which a worker that neither waits nor trains is forgotten */
export function createRemoteWorkers(forgetTicks: number): RemoteWorkers {
  const waiting = new Set<Waiting>()
  /** Names of those that were given something. */
  const worked = new Set<string>()
  const heard = new Map<string, { readonly worker: RemoteWorker; silentTicks: number }>()
  let isClosed = false

  function hear(worker: RemoteWorker): void {
    heard.set(worker.id, { worker, silentTicks: 0 })
  }

  function assertRoom({ id, tenant }: RemoteWorker): void {
    if (heard.has(id)) return
    let count = 0
    for (const { worker } of heard.values()) if (worker.tenant.entity === tenant.entity) count += 1
    if (count < MOST_OF_ENTITY) return
    throw new AppError('rate_limited', 'too_many_workers', `"${tenant.entity}" has ${count} workers already`, {
      hint: 'a worker that does not ask for work is forgotten within minutes',
      details: { retry_after_seconds: 60 },
    })
  }

  function noteWorked(name: string): void {
    worked.add(name)
    const [oldest] = worked
    if (worked.size > MOST_NAMES && oldest !== undefined) worked.delete(oldest)
  }

  return {
    wait: async (worker, { waitMs, signal }) => {
      assertRoom(worker)
      return new Promise((resolve) => {
        hear(worker)
        let isOver = false
        const entry: Waiting = {
          worker,
          give: (claimed) => {
            if (isOver) return false
            isOver = true
            clearTimeout(timer)
            waiting.delete(entry)
            signal.removeEventListener('abort', leave)
            hear(worker)
            if (claimed !== null) noteWorked(worker.name)
            resolve(claimed)
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
    isWaiting: () => waiting.size > 0,
    takeWorked: (name) => worked.delete(name),
    supersede: (id) => {
      for (const entry of [...waiting]) if (entry.worker.id === id) entry.give(null)
    },
    forget: (id) => void heard.delete(id),
    serve: async (claim, giveBack) => {
      const idle = new Set<string>()
      for (const entry of [...waiting]) {
        const { tenant, trainers, memoryBytes } = entry.worker
        const key = JSON.stringify([tenant.entity, tenant.project, trainers, memoryBytes])
        // what another of the same kind did not find is not there for this one either
        if (!waiting.has(entry) || idle.has(key)) continue
        const claimed = await claim(entry.worker)
        if (claimed === null) idle.add(key)
        else if (!entry.give(claimed)) await giveBack(claimed, entry.worker)
      }
    },
    tick: (busy) => {
      const present = new Set([...waiting].map(({ worker }) => worker.id))
      for (const [id, entry] of heard) {
        entry.silentTicks = present.has(id) || busy.has(id) ? 0 : entry.silentTicks + 1
        if (entry.silentTicks > forgetTicks) heard.delete(id)
      }
    },
    list: () => [...heard.values()].map(({ worker }) => worker),
    close: () => {
      isClosed = true
      for (const entry of [...waiting]) entry.give(null)
    },
  }
}

/** A worker of another machine as one that was started here: it ends when it says so, or when it was silent for too long and is fenced off. */
export interface AbsentWorker {
  readonly ended: Promise<string>
  end(reason: string): void
  kill(): void
}

export function absentWorker(): AbsentWorker {
  const { promise: ended, resolve: end } = createDeferred<string>()
  return { ended, end, kill: () => end('its worker on another machine was given up') }
}
