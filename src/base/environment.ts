/**
 * The only reader of `process.env`. Everything else is handed an `Environment`, so tests never touch the real one.
 */

/** Environment variables as given to the process; absent names are undefined. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A copy of the process's environment, taken once at start. */
export function readEnvironment(): Environment {
  return Object.freeze({ ...process.env })
}
