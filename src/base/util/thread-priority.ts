/**
 * The priority of one thread among those of this process.
 */
import { getPriority, setPriority } from 'node:os'

/** POSIX's largest: nothing is less urgent. */
const MOST = 19

/**
 * Lets the calling thread stand behind threads that compute; it matters on a busy machine only.
 *
 * On Linux a priority belongs to the thread that asks. Elsewhere it would be the whole process's, so nothing is done there.
 *
 * @param niceness what is added to that of the process (`nice`): a lower one would be refused to all but root
 */
export function lowerThreadPriority(niceness: number): void {
  if (process.platform === 'linux' && niceness > 0) setPriority(behind(niceness))
}

/** @returns a priority so much less urgent than the caller's */
export function behind(niceness: number): number {
  return Math.min(MOST, getPriority() + niceness)
}
