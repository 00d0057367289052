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
  /** Id of the job or session. */
  readonly id: string
  /** The fence: what an earlier attempt writes is refused. */
  readonly attempt: number
  /** Secret with which the worker proves itself. */
  readonly token: string
  /** A process that trained this model before goes on without loading it again. */
  readonly modelId: string
  /** Base model by name; null if the model was deleted. */
  readonly baseModel: string | null
}

/** Work whose attempt has begun, on its way to a worker. */
export interface ClaimedWork {
  readonly work: Work
  /** The worker has it, and is watched from now on. */
  begin(worker: RunningWorker): void
  /** The worker went away before it had it: the work waits again, without a loss. */
  giveBack(): Promise<void>
}

/** A worker that could begin now, with what it can take. */
export interface FreeWorker extends NewLease {
  /** Id of a worker of another machine; null: of this one. */
  readonly remoteId: string | null
  /** Workers of one group are given the same: what one of them does not find is not there for another. */
  readonly group: string
}

/** End of a worker, or of its work. */
export interface WorkerEnd {
  /** Clause for people, for example `the worker exited with code 1`. */
  readonly reason: string
  /** Whether it is nobody's fault, and counts no loss. */
  readonly isOrderly: boolean
}

/** A worker that has work. */
export interface RunningWorker {
  readonly remoteId: string | null
  /** Process of the worker; null: not known. */
  readonly pid: number | null
  /** Facts of the worker, for people. */
  readonly facts: Pick<WorkerFacts, 'name'>
  /** Resolves when it has no work any more; never rejects. */
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
  /** Workers that have work, while none is free: others may wait for one of them. */
  taken(): readonly FreeWorker[]
}
