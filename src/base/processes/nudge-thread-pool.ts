/**
 * Wakes Node's thread pool (reading files, DNS, compression) now and then, so that queued work is never stuck for ever.
 *
 * A condition variable of glibc before 2.41 can lose a wake-up (https://sourceware.org/bugzilla/show_bug.cgi?id=25847): work is queued
 * while all threads of the pool sleep, and nothing happens until other work wakes one. Seen once on a busy machine with glibc 2.36: an
 * engine waited minutes for an adapter's file, and went on as soon as any other file was looked at. So a process that others wait for
 * looks at a file now and then.
 */
import { stat } from 'node:fs'

/** Gives the pool a small piece of work, whatever comes of it. */
export function nudgeThreadPool(): void {
  stat('.', () => undefined)
}
