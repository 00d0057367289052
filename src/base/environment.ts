/**
 * The only reader and writer of `process.env`. Everything else is handed an `Environment`, so tests never touch the real one.
 */

/** Environment variables as given to the process; absent names are undefined. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A copy of the process's environment, taken once at start. */
export function readEnvironment(): Environment {
  return Object.freeze({ ...process.env })
}

/**
 * Sets a variable for the rest of this process: for native libraries it loads later and children that inherit its environment.
 * Only for switches that a library offers in no other way. Has no effect on native code when called in a worker thread, whose
 * environment is a copy.
 */
export function setEnvironmentVariable(name: string, value: string): void {
  process.env[name] = value
}
