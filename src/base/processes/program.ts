/**
 * How a program that is none of ours is started, an interpreter of another language for example: with pipes, and with what it writes on
 * stderr kept for messages. Knows nothing of what it does.
 */
import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { endOf, stepBack } from './child.js'
import { type Inheritance, spawnPiped } from './start-process.js'

/** Characters of stderr that are kept, the last ones. */
const KEPT_CHARACTERS = 4000

export interface Program {
  readonly process: ChildProcess
  readonly input: Writable
  readonly output: Readable
  /** The end of what it has written on stderr so far. */
  complaints(): string
  /** Resolves with how it ended, as the end of a sentence about it, once all it wrote was read; never rejects. */
  readonly ended: Promise<string>
}

/**
 * Starts a program. One that cannot be started has ended: `ended` says why.
 *
 * @param command a name that is looked up in PATH, or a path
 */
export function startProgram(
  command: string,
  args: readonly string[],
  options: Inheritance & { readonly isBehind?: boolean },
): Program {
  const process = spawnPiped(command, args, { inherits: options })
  let complaints = ''
  process.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-KEPT_CHARACTERS)
  })
  // written to after its end: the end itself is what is told
  process.stdin.on('error', () => undefined)
  const ended = new Promise<string>((resolve) => {
    process.once('error', (error) => resolve(`could not be started: ${error.message}`))
    process.once('close', (code, signal) => resolve(endOf(code, signal)))
  })
  if (options.isBehind === true) stepBack(process)
  return { process, input: process.stdin, output: process.stdout, complaints: () => complaints, ended }
}
