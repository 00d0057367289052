/**
 * The pipe that tells a child whether its parent is alive; both ends use this file descriptor.
 */
import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'

/** File descriptor of the pipe in the child. */
export const LIFELINE_FD = 4

/** Lets the parent exit although it holds one end of the pipe. */
export function releaseLifeline(child: ChildProcess): void {
  const end = child.stdio[LIFELINE_FD]
  if (!(end instanceof Socket)) return
  end.on('error', () => undefined)
  end.unref()
}
