/**
 * What the main thread of a training worker and its heartbeat thread share.
 */
import type { WorkerIdentity } from './fenced-requests.js'

/** What the main thread hands over. */
export interface HeartbeatData {
  readonly identity: WorkerIdentity
  readonly leaseSeconds: number
  readonly parentPid: number
  /** The parent is the server: as long as it lives, a late answer only means that the machine is busy. */
  readonly isServerParent: boolean
  /** Int32: `CANCEL_FLAG`, `PROGRESS_FLAG`, `STOP_FLAG`. */
  readonly flags: SharedArrayBuffer
}

/** Index of the flag that is 1 once a cancel was requested. */
export const CANCEL_FLAG = 0
/** Index of the counter of what the main thread has done. */
export const PROGRESS_FLAG = 1
/** Index of the flag that is 1 once the job is to end with what it has. */
export const STOP_FLAG = 2
/** How many there are. */
export const FLAGS = 3
