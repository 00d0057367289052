/**
 * Notices that something about a job has changed, to listeners in this process and in other servers, so that event streams
 * need not poll.
 *
 * A notice carries no data: a listener reads the database, which alone is the truth, so a missed notice costs a delay only.
 */

import { alone, type Peers } from './peers.js'

/** Listeners by their job. */
export interface JobSignals {
  /** Calls the listeners of `jobId` and of all jobs; they must not throw. */
  notify(jobId: string): void
  /** Resolves at the next notice for `jobId`, after `timeoutMs`, or when `signal` aborts; never rejects. */
  wait(jobId: string, timeoutMs: number, signal: AbortSignal): Promise<void>
}

/**
 * @param onNotice called with every notice, before those that wait
 * @param peers other servers, which hear of it too. Default: there are none
 */
export function createJobSignals(
  onNotice: (jobId: string) => void = () => undefined,
  peers: Pick<Peers, 'tell' | 'on' | 'onMissed'> = alone,
): JobSignals {
  const listeners = new Map<string, Set<() => void>>()

  function tell(jobId: string): void {
    onNotice(jobId)
    for (const listener of [...(listeners.get(jobId) ?? [])]) listener()
  }

  peers.on('job', tell)
  peers.onMissed(() => {
    for (const jobId of [...listeners.keys()]) tell(jobId)
  })
  return {
    notify: (jobId) => {
      tell(jobId)
      peers.tell('job', jobId)
    },
    wait: (jobId, timeoutMs, signal) =>
      new Promise((resolve) => {
        const waiting = listeners.get(jobId) ?? new Set()
        listeners.set(jobId, waiting)
        const timer = setTimeout(settle, timeoutMs)
        function settle(): void {
          clearTimeout(timer)
          waiting.delete(settle)
          if (waiting.size === 0 && listeners.get(jobId) === waiting) listeners.delete(jobId)
          signal.removeEventListener('abort', settle)
          resolve()
        }
        waiting.add(settle)
        signal.addEventListener('abort', settle, { once: true })
        if (signal.aborted) settle()
      }),
  }
}
