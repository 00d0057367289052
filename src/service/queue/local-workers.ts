/**
 * Workers of this machine: so many places, in each of which a process makes one attempt at a time. How a process is started
 * is injected.
 */
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { Claimant } from '#service/storage/jobs/states.js'
import type { FreeWorker, RunningWorker, Work, WorkerPool } from './work.js'

/** A started process. */
interface WorkerProcess {
  /** Resolves with one clause that says how it ended, for example `the worker exited with code 1`; never rejects. */
  readonly ended: Promise<string>
  /** Absent or null: not known. */
  readonly pid?: number | null
  /** Ends it at once. */
  kill(): void
}

export type StartWorker = (work: Work) => WorkerProcess

interface LocalWorkersOptions {
  readonly startWorker: StartWorker
  /** Attempts that may run at once. */
  readonly count: number
  readonly facts: WorkerFacts
  /** Owner of the leases of their jobs. */
  readonly owner: string
  readonly leaseMs: number
  /** Needs that they can meet, as far as is known by now. */
  readonly claimant: () => Claimant
  /** Whether the machine has memory for one more; asked only while others run. */
  readonly hasRoom: () => Promise<boolean>
}

interface LocalWorkers extends WorkerPool {
  /** Kind of these workers; empty where there are none. */
  kinds(): readonly Claimant[]
}

const GROUP = 'local'

export function createLocalWorkers(options: LocalWorkersOptions): LocalWorkers {
  const { count, facts, owner, leaseMs, claimant } = options
  const running = new Set<RunningWorker>()
  const worker = (): FreeWorker => ({ ...claimant(), owner, leaseMs, worker: facts, remoteId: null, group: GROUP })
  const isFull = (): boolean => running.size >= count
  return {
    free: async (idle) => {
      if (isFull() || idle.has(GROUP)) return null
      // those that run must not be killed for memory by the next; alone, one always starts
      return running.size > 0 && !(await options.hasRoom()) ? null : worker()
    },
    start: (_, work) => {
      const process = options.startWorker(work)
      const { pid = null } = process
      const started: RunningWorker = {
        ...{ remoteId: null, pid, facts },
        ended: process.ended.then((reason) => {
          running.delete(started)
          return { reason, isOrderly: false }
        }),
        kill: () => process.kill(),
      }
      running.add(started)
      return started
    },
    taken: () => (isFull() && count > 0 ? [worker()] : []),
    kinds: () => (count > 0 ? [claimant()] : []),
  }
}
