/**
 * The exit codes of the command line: one table for `main.ts`, `trainyard help exit-codes` and every command's help.
 */
import type { ErrorCategory } from '#base/errors/errors.js'

export type ExitName =
  | 'done'
  | 'failed'
  | 'usage'
  | 'not_found'
  | 'not_allowed'
  | 'conflict'
  | 'unreachable'
  | 'job_failed'
  | 'gave_up'
  | 'interrupted'
  | 'terminated'

export interface ExitCode {
  readonly code: number
  readonly meaning: string
}

export const exitCodes: Readonly<Record<ExitName, ExitCode>> = {
  done: { code: 0, meaning: 'done; also nothing found by a list, and a closed pipe' },
  failed: { code: 1, meaning: 'failed: server error, input or output error, anything unclassified' },
  usage: { code: 2, meaning: 'usage or input: bad flag, bad file, needs --yes, refused by the server as invalid' },
  not_found: { code: 3, meaning: 'the named thing does not exist' },
  not_allowed: { code: 4, meaning: 'no or wrong credentials, or not allowed' },
  conflict: { code: 5, meaning: 'conflict: exists, busy, or already finished' },
  unreachable: { code: 6, meaning: 'service unreachable, overloaded or shutting down; trying again may help' },
  job_failed: { code: 7, meaning: 'the job being watched or waited for failed or was cancelled' },
  gave_up: { code: 8, meaning: 'gave up waiting; it is still running' },
  interrupted: { code: 130, meaning: 'interrupted (Ctrl-C)' },
  terminated: { code: 143, meaning: 'terminated (SIGTERM)' },
}

const exitOfCategory: Readonly<Record<ErrorCategory, ExitName>> = {
  invalid_request: 'usage',
  authentication: 'not_allowed',
  permission: 'not_allowed',
  not_found: 'not_found',
  conflict: 'conflict',
  too_large: 'usage',
  rate_limited: 'unreachable',
  unavailable: 'unreachable',
  not_implemented: 'failed',
  internal: 'failed',
  cancelled: 'interrupted',
}

/** The exit code of an error's category. */
export function exitCodeOf(category: ErrorCategory): number {
  return exitCodes[exitOfCategory[category]].code
}
