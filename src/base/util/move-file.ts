/**
 * Renames and removes files that somebody else may be reading. Windows refuses both while a virus scanner, an indexer or a process
 * that maps the file holds it, mostly for a moment: there it is tried again. Other systems do not refuse it for that reason.
 */
import { rename, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** What Windows says of a file that somebody holds. */
const HELD = new Set(['EPERM', 'EACCES', 'EBUSY'])
/** Waits between the tries, milliseconds; two seconds together. */
const WAITS = [10, 20, 50, 100, 200, 400, 600, 620]

export interface MoveFileOptions {
  readonly platform?: NodeJS.Platform
  readonly renameFile?: (from: string, to: string) => Promise<void>
  readonly wait?: (ms: number) => Promise<unknown>
}

/** As `rename` of `node:fs/promises`. @throws what it throws in the end */
export async function moveFile(
  from: string,
  to: string,
  { platform = process.platform, renameFile = rename, wait = sleep }: MoveFileOptions = {},
): Promise<void> {
  for (const ms of platform === 'win32' ? WAITS : []) {
    try {
      return await renameFile(from, to)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && HELD.has(String(error.code)))) throw error
      await wait(ms)
    }
  }
  return renameFile(from, to)
}

/** Removes a file or a folder with all that is in it; nothing there is no error. */
export function removeTree(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
}
