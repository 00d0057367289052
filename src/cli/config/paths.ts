/**
 * Where files of the command line and the service live: XDG base directories, with the platform's own folders on Windows.
 *
 * Source: XDG Base Directory Specification 0.8. A relative XDG variable is ignored, as the specification asks.
 */
import { userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'
import type { Environment } from '#base/environment.js'

/** Absolute paths; none of them needs to exist. */
export interface Paths {
  /** Settings of a person; mode 0600 because it may hold a key. */
  readonly configFile: string
  /** Default of `--data-dir`. */
  readonly dataDir: string
  /** What can be fetched again: base models of a worker on another machine than the server. */
  readonly cacheDir: string
  /** Records of running local servers, one file per address. */
  readonly stateDir: string
}

/** Name of the key file inside a data directory; written by the service on its first start. */
export const API_KEY_FILE = 'api-key'

/**
 * Computes the paths; touches no disk.
 *
 * @param accountHome the home folder of the account this runs as; throws if the system knows no such account
 */
export function resolvePaths(environment: Environment, accountHome = (): string => userInfo().homedir): Paths {
  // A relative or empty HOME would put data below whatever folder one happens to be in.
  const named = environment['HOME'] ?? ''
  const home = isAbsolute(named) ? named : homeOr('/', accountHome)
  const local = environment['LOCALAPPDATA']
  const isWindows = local !== undefined && environment['OS'] === 'Windows_NT'
  function folder(variable: string, fallback: string): string {
    const value = environment[variable]
    if (value !== undefined && isAbsolute(value)) return join(value, 'trainyard')
    return isWindows ? join(local, 'trainyard', variable.slice(4, -5).toLowerCase()) : join(home, fallback, 'trainyard')
  }
  return {
    configFile: join(folder('XDG_CONFIG_HOME', '.config'), 'config.json'),
    dataDir: folder('XDG_DATA_HOME', '.local/share'),
    cacheDir: folder('XDG_CACHE_HOME', '.cache'),
    stateDir: folder('XDG_STATE_HOME', '.local/state'),
  }
}

/** Containers run as numbers without an account; their engines say that home is the root then, and what cannot be written is said later. */
function homeOr(fallback: string, accountHome: () => string): string {
  try {
    return accountHome()
  } catch {
    return fallback
  }
}
