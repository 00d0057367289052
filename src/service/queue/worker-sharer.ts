/**
 * The interface through which the dispatcher shares workers with something that is not the queue of jobs.
 */
import type { RemoteClaim, RemoteWorker } from './remote-workers.js'

/** What else needs workers: training sessions (`sessions/session-runner.ts`). */
export interface WorkerSharer {
  /** Workers of this machine that it has. */
  count(): number
  isWaiting(): boolean
  /** Takes one more worker. @returns whether it had a use for it */
  startNext(): Promise<boolean>
  /** Starts on a worker of another machine. @returns null if it has nothing for it */
  startFor(worker: RemoteWorker): Promise<RemoteClaim | null>
  /** Workers of other machines that it has. */
  elsewhere(): readonly RemoteWorker[]
  /** Whether one waits that this worker may have. */
  isWaitingFor(worker: RemoteWorker): Promise<boolean>
  /** A worker of another machine has left whatever it had. */
  left(workerId: string, how: { readonly reason: string; readonly isOrderly: boolean }): void
  /** Somebody waits: it gives a worker back as soon as that is fair. @param workerId of another machine; null: one of this */
  makeRoom(workerId: string | null): void
  /** Time has passed: called as often as leases are looked at. */
  tick(): void
}
