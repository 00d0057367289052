/**
 * The clock, and the processor time of threads. Nothing else reads the time; it is injected everywhere, so that tests can control it.
 */

import { readFileSync } from 'node:fs'

/** Milliseconds since the Unix epoch, and a monotonic counter for durations. */
export interface Clock {
  /** Wall-clock time, milliseconds since 1970-01-01T00:00:00Z. */
  nowMs(): number
  /** Monotonic time for durations, milliseconds from an arbitrary origin. */
  monotonicMs(): number
}

/** The machine's clock. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}

/**
 * Processor time that a thread uses from now on, in ms: what a limit on work counts, so that a busy machine does not use it up.
 *
 * @param thread its number in the system, or the calling one; null: not known
 * @returns where the system does not tell it (Linux does), at most what the clock says and at most what the whole process used
 */
export function watchProcessorTime(thread: number | 'own' | null, clock: Clock): () => number {
  const startedMs = clock.monotonicMs()
  const startedCpuMs = processorMsOf(thread)
  const startedProcess = process.cpuUsage()
  return () => {
    const cpuMs = processorMsOf(thread)
    if (cpuMs !== null && startedCpuMs !== null) return cpuMs - startedCpuMs
    const { user, system } = process.cpuUsage(startedProcess)
    return Math.min(clock.monotonicMs() - startedMs, (user + system) / 1000)
  }
}

/** Processor time of a thread of this process, from /proc; null where that is not known. */
function processorMsOf(thread: number | 'own' | null): number | null {
  if (thread === null) return null
  try {
    const stat = readFileSync(thread === 'own' ? '/proc/thread-self/stat' : `/proc/self/task/${thread}/stat`, 'utf8')
    // the second field, in brackets, may hold spaces; user and system time are the 14th and 15th, in ticks of 10 ms
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return null
  }
}
