/**
 * Preloaded into every child process: ends it when its parent is gone, however the parent went.
 *
 * The parent holds the other end of a pipe and never writes; the operating system closes it when the parent dies. Not the
 * IPC channel's `disconnect`, because listening to that changes what keeps a child alive. Knows nothing of what the child
 * does; the child's state is crash-safe by design.
 */
import { Socket } from 'node:net'
import { LIFELINE_FD } from './lifeline.js'

const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false })
// must not keep a finished child alive
lifeline.unref()
lifeline.on('error', die)
lifeline.on('close', die)
lifeline.resume()

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}
