/**
 * The only place that starts a process. Whoever calls it says what of the environment the process is given: nothing is inherited
 * by default (`child-environment.ts`).
 *
 * Knows nothing of what is started: `child.ts` starts our own modules, `program.ts` other people's programs.
 */
import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  execFile,
  execFileSync,
  type ForkOptions,
  fork,
  type SpawnOptions,
  spawn,
} from 'node:child_process'
import { promisify } from 'node:util'
import type { Environment } from '#base/environment.js'
import { type ChildNeed, childEnvironment } from './child-environment.js'

export interface Inheritance {
  /** The parent's, of which the process is given what its needs allow. */
  readonly environment: Environment
  /** Beyond what every process needs; `everything`: a program that the user runs by us as by a shell. */
  readonly needs?: readonly ChildNeed[] | 'everything'
  /** Variables that are meant for this process, secrets that it uses among them. */
  readonly given?: Environment
}

export function environmentOf({ environment, needs = [], given = {} }: Inheritance): NodeJS.ProcessEnv {
  return { ...(needs === 'everything' ? environment : childEnvironment(environment, needs)), ...given }
}

/** On Windows a process would open a window of its own. `fork` hands it to `spawn`; its types do not know that. */
const NO_CONSOLE: object = { windowsHide: true }

/** Starts a module by Node, with a channel for messages. */
export function forkProcess(path: string, inheritance: Inheritance, options: Omit<ForkOptions, 'env'>): ChildProcess {
  return fork(path, [], { ...options, ...NO_CONSOLE, env: environmentOf(inheritance) })
}

/** @param command a name that is looked up in PATH, or a path */
export function spawnProcess(
  command: string,
  args: readonly string[],
  { inherits, ...options }: Omit<SpawnOptions, 'env'> & { readonly inherits: Inheritance },
): ChildProcess {
  return spawn(command, args, { ...options, windowsHide: true, env: environmentOf(inherits) })
}

/** The same with a pipe for each of stdin, stdout and stderr. */
export function spawnPiped(
  command: string,
  args: readonly string[],
  { inherits, ...options }: Omit<SpawnOptions, 'env' | 'stdio'> & { readonly inherits: Inheritance },
): ChildProcessWithoutNullStreams {
  return spawn(command, args, {
    ...options,
    windowsHide: true,
    env: environmentOf(inherits),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

export interface AskedProgram extends Inheritance {
  readonly timeoutMs: number
}

/** What a program prints on stdout. @throws {Error} where it cannot be started, fails, or takes longer */
export async function readProgram(
  command: string,
  args: readonly string[],
  { timeoutMs, ...inheritance }: AskedProgram,
): Promise<string> {
  const options = { timeout: timeoutMs, windowsHide: true, env: environmentOf(inheritance) }
  return (await promisify(execFile)(command, args, options)).stdout
}

/** The same, while nothing else of this process goes on. */
export function readProgramNow(
  command: string,
  args: readonly string[],
  { timeoutMs, ...inheritance }: AskedProgram,
): string {
  return execFileSync(command, args, {
    encoding: 'utf8',
    timeout: timeoutMs,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: environmentOf(inheritance),
  })
}
