/**
 * Work and workers, the words of the queue: an attempt at a job or a training session, the worker that it is given to, and
 * what brings the two together (`scheduler.ts`). A source has work, a pool has workers; neither knows the other.
 */
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import type { Preemptible, WorkKind } from './fairness.js'
import type { NewLease } from './queue.js'

/** An attempt at a job or a training session. */
export interface Work {
  readonly kind: WorkKind
  /** Of the job or session. */
  readonly id: string
  /** The fence: what an earlier attempt writes is refused. */
  readonly attempt: number
  /** With which its worker proves itself. */
  readonly token: string
  /** A process that trained this model before goes on without loading it again. */
  readonly modelId: string
  /** Null if its model is gone. */
  readonly baseModel: string | null
}

/** Work whose attempt has begun, on its way to a worker. */
export interface ClaimedWork {
  readonly work: Work
  /** Its worker has it, and is watched from now on. */
  begin(worker: RunningWorker): void
  /** Its worker went away before it had it: it waits again, without a loss. */
  giveBack(): Promise<void>
}

/** A worker that could begin now, with what it can take. */
export interface FreeWorker extends NewLease {
  /** Null: it is of this machine. */
  readonly remoteId: string | null
  /** Workers of one group are given the same: what one of them does not find is not there for another. */
  readonly group: string
}

/** How a worker left its work. */
export interface WorkerEnd {
  /** One clause, for example `the worker exited with code 1`. */
  readonly reason: string
  /** Nobody's fault: counts no loss. */
  readonly isOrderly: boolean
}

/** A worker that has work. */
export interface RunningWorker {
  readonly remoteId: string | null
  /** Its process; null: not known. */
  readonly pid: number | null
  /** What is known of it, for people. */
  readonly facts: Pick<WorkerFacts, 'name'>
  /** Never rejects. */
  readonly ended: Promise<WorkerEnd>
  /** Ends it at once; one of another machine, which no signal reaches, is given up. */
  kill(): void
}

/** Jobs or training sessions. */
export interface WorkSource {
  readonly kind: WorkKind
  /** Begins an attempt at the next that this worker may have; null: there is none. */
  claim(worker: FreeWorker): Promise<ClaimedWork | null>
  /** Whether something waits that this worker could claim. */
  isWaiting(worker: FreeWorker): Promise<boolean>
  /**
   * Work that gives its worker back when others wait.
   *
   * @param remoteId of a worker of another machine; null: all of this machine
   */
  preemptible(remoteId: string | null): readonly Preemptible[]
}

/** Workers of one sort of place: this machine (`local-workers.ts`), or others (`remote-workers.ts`). */
export interface WorkerPool {
  /** The worker that gets the next work; null: none is free. @param idle groups for which nothing waits */
  free(idle: ReadonlySet<string>): Promise<FreeWorker | null>
  /** Gives it work; null: it went away meanwhile. */
  start(worker: FreeWorker, work: Work): RunningWorker | null
  /** Those that have work, while none is free: for one of them others may have to wait. */
  taken(): readonly FreeWorker[]
}
