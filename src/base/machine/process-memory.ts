/**
 * Memory that a process and its descendants hold, as the kernel counts it. Pages that two of them share count twice.
 * Source: proc_pid_status(5), proc_tid_children(5).
 */
import { readdirSync, readFileSync } from 'node:fs'

/** Bytes that a process and all that it started hold; 0 where the system does not tell. */
export function residentTreeBytes(pid: number | undefined): number {
  if (pid === undefined) return 0
  return residentBytes(pid) + childrenOf(pid).reduce((sum, child) => sum + residentTreeBytes(child), 0)
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`))?.[1]
  return Number(kilobytes ?? 0) * 1024
}

/** Children stand with the thread that started them. */
function childrenOf(pid: number): readonly number[] {
  let threads: readonly string[]
  try {
    threads = readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
  return threads.flatMap((thread) => [...read(`/proc/${pid}/task/${thread}/children`).matchAll(/\d+/g)].map(Number))
}

/** Empty for a process that has ended, and where there is no such file. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
