/**
 * Tells listeners in this process that something about a job has changed, so that event streams need not poll.
 *
 * Carries no data: a listener reads the database, which alone is the truth, so a missed notice costs a delay only.
 */

/** Who waits for which job. */
export interface JobSignals {
  /** Calls the listeners of `jobId` and of all jobs; they must not throw. */
  notify(jobId: string): void
  /** Resolves at the next notice for `jobId`, after `timeoutMs`, or when `signal` aborts; never rejects. */
  wait(jobId: string, timeoutMs: number, signal: AbortSignal): Promise<void>
}

/** @param onNotice called with every notice, before those that wait */
export function createJobSignals(onNotice: (jobId: string) => void = () => undefined): JobSignals {
  const listeners = new Map<string, Set<() => void>>()
  return {
    notify: (jobId) => {
      onNotice(jobId)
      for (const listener of [...(listeners.get(jobId) ?? [])]) listener()
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
