/**
 * Tells listeners in this process, and in servers beside it, that something about a job has changed, so that event streams need not poll.
 *
 * Carries no data: a listener reads the database, which alone is the truth, so a missed notice costs a delay only.
 */

import type { ServerGroup } from './server-group.js'

/** Who waits for which job. */
export interface JobSignals {
  /** Calls the listeners of `jobId` and of all jobs; they must not throw. */
  notify(jobId: string): void
  /** Resolves at the next notice for `jobId`, after `timeoutMs`, or when `signal` aborts; never rejects. */
  wait(jobId: string, timeoutMs: number, signal: AbortSignal): Promise<void>
}

/**
 * @param onNotice called with every notice, before those that wait
 * @param group the servers beside this one; null: there are none
 */
export function createJobSignals(
  onNotice: (jobId: string) => void = () => undefined,
  group: Pick<ServerGroup, 'announce' | 'on' | 'onMissed'> | null = null,
): JobSignals {
  const listeners = new Map<string, Set<() => void>>()

  function tell(jobId: string): void {
    onNotice(jobId)
    for (const listener of [...(listeners.get(jobId) ?? [])]) listener()
  }

  group?.on('job', tell)
  group?.onMissed(() => {
    for (const jobId of [...listeners.keys()]) tell(jobId)
  })
  return {
    notify: (jobId) => {
      tell(jobId)
      group?.announce('job', jobId)
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
