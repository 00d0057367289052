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
