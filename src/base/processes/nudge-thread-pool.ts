/**
 * Keeps work of Node's thread pool (reading files, DNS, compression) from lying there for ever.
 *
 * A condition variable of glibc before 2.41 can lose a wake-up (https://sourceware.org/bugzilla/show_bug.cgi?id=25847): the work is queued,
 * all of the pool's threads sleep, and nothing happens until the next work wakes one. Seen once on a busy machine with glibc 2.36: an engine
 * waited for minutes for an adapter's file to be read, with a request for it behind, and any other file that was looked at set it going. So who
 * is waited for looks at one now and then.
 */
import { stat } from 'node:fs'

/** Gives the pool a small piece of work, whatever comes of it. */
export function nudgeThreadPool(): void {
  stat('.', () => undefined)
}
