/**
 * How many files and connections this process may have open. Node raises its limit to the system's hardest one by itself.
 *
 * Below a few hundred the service does not even load: its modules are read side by side, and what Node then says (a package that
 * cannot be found) names something else.
 */
import { readFileSync } from 'node:fs'
import { AppError } from '#base/errors/errors.js'

/** What loading takes is below 400; every connection and every body on its way is one more. */
export const LEAST_OPEN_FILES = 512

/** The limit in the words of `/proc/self/limits`; null where they do not say it, as on systems that have no such file. */
export function openFileLimit(limits: string | null = readLimits()): number | null {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? '')?.[1]
  return soft === undefined ? null : Number(soft)
}

/** @throws {AppError} `too_many_open_files` if the service cannot be loaded under that limit */
export function assertOpenFiles(limit: number | null = openFileLimit()): void {
  if (limit === null || limit >= LEAST_OPEN_FILES) return
  const problem = `the service needs ${LEAST_OPEN_FILES} open files and connections at least, this process may have ${limit}`
  throw new AppError('internal', 'too_many_open_files', problem, {
    hint: 'raise the limit of open files, better to 4096: ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of Docker',
  })
}

function readLimits(): string | null {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return null
  }
}
