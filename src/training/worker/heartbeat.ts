/**
 * Starts and stops the heartbeat thread, and tells whether a cancel was requested.
 */
import { Worker } from 'node:worker_threads'
import type { HeartbeatData } from './heartbeat-thread.js'

/** A running heartbeat. */
export interface Heartbeat {
  /** True once the server asked to cancel; stays true. */
  isCancelRequested(): boolean
  /** Ends the thread; the lease then runs out by itself. */
  stop(): Promise<void>
}

/**
 * Starts the heartbeat thread.
 *
 * Side effect: the thread kills this process when the attempt is stale or server or parent are gone.
 */
export function startHeartbeat(options: Omit<HeartbeatData, 'flags'>): Heartbeat {
  const flags = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
  const data: HeartbeatData = { ...options, flags }
  const thread = new Worker(new URL('./heartbeat-thread.js', import.meta.url), { workerData: data })
  thread.unref()
  const view = new Int32Array(flags)
  return {
    isCancelRequested: () => Atomics.load(view, 0) === 1,
    stop: async () => {
      thread.postMessage('stop')
      await thread.terminate()
    },
  }
}
