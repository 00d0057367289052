/**
 * What `/proc` says of a process and its children. Linux only.
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Ids of a process's children; none of one that has ended. */
export function childrenOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
    )
  } catch {
    return []
  }
}

/** Peak resident memory of one process in bytes, mapped files counted; 0 of one that has ended. */
export function peakBytes(pid) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}

/**
 * Seconds of processors that a process took itself, and those of its children that have ended; zeros of a process that has ended.
 *
 * Source: proc(5), fields 14 to 17, in ticks of which every Linux that Node runs on has 100 a second. The name in front of them may hold blanks.
 */
export function processorTimes(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const ticks = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    return { own: (ticks[11] + ticks[12]) / 100, ended: (ticks[13] + ticks[14]) / 100 }
  } catch {
    return { own: 0, ended: 0 }
  }
}

/** Seconds of processors that a process and all that it started took, also those that have ended. */
export function treeSeconds(pid) {
  const { own, ended } = processorTimes(pid)
  return childrenOf(pid).reduce((sum, child) => sum + treeSeconds(child), own + ended)
}
