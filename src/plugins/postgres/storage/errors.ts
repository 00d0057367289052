/**
 * What PostgreSQL and the way to it answer → errors a person can act on. Classes of codes: appendix A of PostgreSQL's manual.
 */
import { AppError, InvalidRequestError, StorageError, systemCodeOf } from '#base/errors/errors.js'

/** Five characters, for example `40001`; null for what did not come from the database. */
export function sqlStateOf(error: unknown): string | null {
  const code = systemCodeOf(error)
  return code !== null && /^[0-9A-Z]{5}$/.test(code) && /\d/.test(code) ? code : null
}

/** Serialization failures and deadlocks: the transaction is undone, and would be done if it was tried again. */
export function isConflict(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === '40001' || state === '40P01'
}

/** The driver says these in words only. */
const LOST_WORDS =
  /Connection terminated|connection error and is not queryable|timeout exceeded when trying to connect|Query read timeout|Client was closed/
const LOST_CODES = /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ENOENT)$/
/** Shut down, starting, not reachable, no connection left, a standby that takes no writes. */
const AWAY_STATES = /^(57P0[1-5]|08...|533..|25006)$/

/** Whether the connection is of no use any more. */
export function isConnectionLost(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state !== null) return /^(57P0.|08...)$/.test(state)
  return error instanceof Error && (LOST_WORDS.test(error.message) || LOST_CODES.test(String(systemCodeOf(error))))
}

/** The error for people; what only the caller can judge (a violated key, a conflict of transactions) stays as it is. */
export function toDatabaseError(error: unknown): unknown {
  if (error instanceof AppError || !(error instanceof Error)) return error
  const state = sqlStateOf(error)
  if (isConnectionLost(error) || (state !== null && AWAY_STATES.test(state))) return unavailable(error)
  if (state === null) return error
  if (state === '53100') {
    const problem = "the database cannot be written: its server's disk is full"
    return new AppError('unavailable', 'disk_full', problem, {
      hint: 'free some space there and try again',
      cause: error,
    })
  }
  if (state === '22021' || state === '22P05') {
    return new InvalidRequestError(
      'invalid_value',
      'a text holds the character U+0000, which the database cannot store',
      {
        hint: 'leave it out',
        cause: error,
      },
    )
  }
  if (/^(28...|3D000|42501|3F000)$/.test(state)) {
    return new StorageError('database_refused', `the database refuses this server: ${error.message}`, {
      hint: 'name a database that exists and a user who owns it in --database; the password is taken from PGPASSWORD or PGPASSFILE',
      cause: error,
    })
  }
  return error
}

function unavailable(cause: Error): AppError {
  return new AppError('unavailable', 'database_unavailable', 'the database cannot be reached', {
    hint: 'nothing was changed; try again when it is back',
    details: { retry_after_seconds: 5 },
    cause,
  })
}

/** A commit, or a write outside a transaction, was sent, and the connection was lost before its answer. */
export function unknownOutcome(cause: unknown): AppError {
  return new AppError(
    'unavailable',
    'database_unavailable',
    'the connection to the database was lost while the write was on its way: it may be done all the same',
    {
      hint: 'look before you repeat it; with the same Idempotency-Key, or return_existing for a model, a repetition returns what was made',
      details: { retry_after_seconds: 5 },
      cause,
    },
  )
}

/** A transaction that others kept from being done as often as it was tried. */
export function databaseBusy(cause: unknown): AppError {
  return new AppError('unavailable', 'database_busy', 'too many others write the same rows at this moment', {
    hint: 'nothing was changed; try again',
    details: { retry_after_seconds: 1 },
    cause,
  })
}
