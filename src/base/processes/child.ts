/**
 * How a child process is started: from the build, with a channel for messages and a lifeline, so that it dies with its parent,
 * and with its share of the machine. Knows nothing of what it does.
 */
import type { ChildProcess } from 'node:child_process'
import { setPriority } from 'node:os'
import { behind } from '#base/util/thread-priority.js'
import { bundlePath, dieWithParentFlags, type EntryPoint, type StandIn } from './entry.js'
import { releaseLifeline } from './lifeline.js'
import { forkProcess, type Inheritance } from './start-process.js'

export interface ChildOptions extends Inheritance {
  /** Of Node and V8. */
  readonly flags?: readonly string[]
  /** Its stdout can be read; default: it goes where our stderr goes, for stdout belongs to the command line. */
  readonly isRead?: boolean
  /** Whoever chats goes before it. */
  readonly isBehind?: boolean
  /** How messages are written; default JSON. */
  readonly serialization?: 'advanced'
}

export function startChild(entry: EntryPoint | StandIn, options: ChildOptions): ChildProcess {
  const child = forkProcess(bundlePath(entry), options, {
    ...(options.serialization === undefined ? {} : { serialization: options.serialization }),
    execArgv: [...dieWithParentFlags(), ...(options.flags ?? [])],
    // no stdin, IPC, lifeline (`lifeline.ts`)
    stdio: ['ignore', options.isRead === true ? 'pipe' : 2, 2, 'ipc', 'pipe'],
  })
  releaseLifeline(child)
  // an error that comes when nobody waits for one must not end this process
  child.on('error', () => undefined)
  if (options.isBehind === true) stepBack(child)
  return child
}

/** How a child ended, as the end of a sentence about it. */
export function endOf(code: number | null, signal: NodeJS.Signals | null): string {
  return signal === null ? `exited with code ${code}` : `was killed by ${signal}`
}

/**
 * Beside an engine that takes all cores this is about a third of them. At 10 it is a tenth, and a job nearly stands still while
 * somebody chats. Measured with 135M parameters on two cores, four streams beside a job, of their speed alone: 10 leaves 0.76
 * and 0.0, 5 0.57 and 0.17, 3 0.62 and 0.31, 0 0.32 and 0.51.
 */
const NICENESS = 3

/**
 * Who chats waits for an answer and goes first, however urgent the server itself is: the child gets a smaller share, and everything
 * when nobody chats.
 */
export function stepBack(child: ChildProcess): void {
  if (child.pid === undefined) return
  try {
    setPriority(child.pid, behind(NICENESS))
  } catch {
    // It has ended already, or the system has no priorities.
  }
}
