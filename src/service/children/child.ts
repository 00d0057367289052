/**
 * What all child processes have in common: how much of the machine they get.
 */
import type { ChildProcess } from 'node:child_process'
import { setPriority } from 'node:os'
import { behind } from '#base/util/thread-priority.js'

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
