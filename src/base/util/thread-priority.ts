/**
 * The priority of one thread among those of this process.
 */
import { setPriority } from 'node:os'

/**
 * Lets the calling thread stand behind threads that compute; it matters on a busy machine only.
 *
 * On Linux a priority belongs to the thread that asks. Elsewhere it would be the whole process's, so nothing is done there.
 *
 * @param niceness 0 to 19; more is less urgent, 0 changes nothing
 */
export function lowerThreadPriority(niceness: number): void {
  if (process.platform === 'linux' && niceness > 0) setPriority(niceness)
}
