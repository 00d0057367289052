/**
 * What work costs this process whatever else the machine does: processor time instead of the clock, and memory that is still
 * reachable instead of what the collector has not come to yet.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Frees what nothing reaches. */
export function collectGarbage(): void {
  collect()
}

/** Least processor time of so many runs, milliseconds. */
export function leastCpuMs(runs: number, work: () => unknown): number {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs; run += 1) {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}
