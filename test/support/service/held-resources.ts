/**
 * What this process holds for a service: open files of a data directory, child processes, listening ports. Seen through /proc, so
 * on Linux only.
 */
import { readdirSync, readlinkSync } from 'node:fs'
import { openDataDir } from '#service/storage/data-dir.js'
import { until } from '../until.js'
import { childrenOf } from './killable-server.js'

export interface HeldResources {
  readonly files: readonly string[]
  readonly children: readonly number[]
  readonly ports: number
}

export function heldFor(dataDir: string): HeldResources {
  return {
    files: openFiles().filter((path) => path.startsWith(dataDir)),
    children: childrenOf(process.pid),
    ports: process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length,
  }
}

/** Waits until no more is held than before, for a process that was ended takes a moment to go; then the lock must be free. */
export async function untilReleased(dataDir: string, before: HeldResources): Promise<void> {
  let held = heldFor(dataDir)
  await until(() => {
    held = heldFor(dataDir)
    return JSON.stringify(held) === JSON.stringify(before)
  }, `release of ${dataDir}`).catch((cause: unknown) => {
    throw new Error(`still held: ${JSON.stringify(held)}`, { cause })
  })
  const again = await openDataDir(dataDir)
  again.unlock()
}

function openFiles(): readonly string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)]
    } catch {
      // the folder's own, closed since
      return []
    }
  })
}
