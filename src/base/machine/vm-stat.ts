/**
 * Runs vm_stat(1), a Mac's own count of its pages. Knows nothing of what it prints.
 */
import { readEnvironment } from '#base/environment.js'
import { readProgramNow } from '#base/processes/start-process.js'

/** What it prints, within milliseconds; null where it cannot be run. */
export function runVmStat(): string | null {
  try {
    return readProgramNow('/usr/bin/vm_stat', [], { environment: readEnvironment(), timeoutMs: 1000 })
  } catch {
    return null
  }
}
