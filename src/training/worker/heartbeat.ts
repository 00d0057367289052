/**
 * Starts and stops the heartbeat thread, and tells whether a cancel was requested.
 */
import { startThread } from '#base/processes/ask-thread.js'
import { CANCEL_FLAG, FLAGS, type HeartbeatData, PROGRESS_FLAG, STOP_FLAG } from './heartbeat-flags.js'

/** A running heartbeat. */
export interface Heartbeat {
  /** True once the server asked to cancel; stays true. */
  isCancelRequested(): boolean
  /** True once the server asked to end with what there is; stays true. */
  isStopRequested(): boolean
  /** Counts something done: the server gives up an attempt that lives but does nothing. */
  noteProgress(): void
  /** Ends the thread; the lease then runs out by itself. */
  stop(): Promise<void>
}

/**
 * Starts the heartbeat thread.
 *
 * Side effect: the thread kills this process when the attempt is stale or server or parent are gone.
 */
export function startHeartbeat(options: Omit<HeartbeatData, 'flags'>): Heartbeat {
  const flags = new SharedArrayBuffer(FLAGS * Int32Array.BYTES_PER_ELEMENT)
  const data: HeartbeatData = { ...options, flags }
  const thread = startThread('training/worker/heartbeat-thread.js', { workerData: data })
  const view = new Int32Array(flags)
  return {
    isCancelRequested: () => Atomics.load(view, CANCEL_FLAG) === 1,
    isStopRequested: () => Atomics.load(view, STOP_FLAG) === 1,
    noteProgress: () => void Atomics.add(view, PROGRESS_FLAG, 1),
    stop: async () => {
      thread.postMessage('stop')
      await thread.terminate()
    },
  }
}
