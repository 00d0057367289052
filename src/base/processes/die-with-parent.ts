/**
 * Preloaded into every child process: ends it when its parent is gone, however the parent ended.
 *
 * The parent holds the other end of a pipe and never writes; the operating system closes it when the parent dies. Not the
 * IPC channel's `disconnect`, because listening to that changes what keeps a child alive. Knows nothing of what the child
 * does; the child's state is crash-safe by design.
 *
 * Signals meant for the whole process group (Ctrl-C in a terminal, a service manager's stop) are left to the parent: it
 * drains first and then ends its children.
 */
import { Socket } from 'node:net'
import { isMainThread } from 'node:worker_threads'
import { LIFELINE_FD } from './lifeline.js'

// threads of the child run this too; the pipe has one owner, or the end of a thread would close it for all
if (isMainThread) watchParent()

function watchParent(): void {
  const lifeline = new Socket({ fd: LIFELINE_FD, readable: true, writable: false })
  // must not keep a finished child alive
  lifeline.unref()
  lifeline.on('error', die)
  lifeline.on('close', die)
  lifeline.resume()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
}

function die(): void {
  process.kill(process.pid, 'SIGKILL')
}
