/**
 * Runs vm_stat(1), a Mac's own count of its pages. Knows nothing of what it prints.
 */
import { execFileSync } from 'node:child_process'

/** What it prints, within milliseconds; null where it cannot be run. */
export function runVmStat(): string | null {
  try {
    return execFileSync('/usr/bin/vm_stat', { encoding: 'utf8', timeout: 1000, stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return null
  }
}
