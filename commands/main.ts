/**
 * The process side of the command line: streams, signals and the exit code. The only file that sets `process.exitCode`.
 *
 * First Ctrl-C, SIGTERM or SIGHUP (a terminal that closes): the running command is told to stop and has two seconds; a second one, or
 * the end of that time, ends the process at once. A closed pipe means that its reader has enough: exit 0.
 */

import { readEnvironment } from '#base/environment.js'
import { onStopMessage } from '#base/processes/stop-message.js'
import { packageVersion } from '#base/util/package-root.js'
import { runProgram } from './program.js'

/**
 * Time a command has to clean up after an interruption; a server, also one of `demo`, drains with its own, longer deadline, and a worker
 * with what it was told.
 */
const CLEANUP_MS = 2000
const SERVE_CLEANUP_MS = 20_000

const argv = process.argv.slice(2)
const interruption = new AbortController()

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  process.stderr.write(`error: standard output cannot be written: ${error.message}\n`)
  process.exit(1)
})
// Nobody reads what we say: no reason to stop doing what was asked, least of all for a server.
process.stderr.on('error', () => undefined)
process.on('SIGINT', () => void interrupt('SIGINT'))
process.on('SIGTERM', () => void interrupt('SIGTERM'))
process.on('SIGHUP', () => void interrupt('SIGTERM'))
onStopMessage(() => void interrupt('SIGTERM'))

process.exitCode = await runProgram({
  argv,
  environment: readEnvironment(),
  streams: process,
  signal: interruption.signal,
  version: packageVersion(),
})
// Nothing may hold the process open once a command is done: kept-alive sockets, an unread stdin.
if (interruption.signal.aborted) process.exit()
process.stdin.unref?.()

async function interrupt(name: 'SIGINT' | 'SIGTERM'): Promise<void> {
  const exitCode = name === 'SIGINT' ? 130 : 143
  if (interruption.signal.aborted) process.exit(exitCode)
  const { InterruptedError } = await import('#cli/terminal/errors.js')
  interruption.abort(new InterruptedError(name))
  if (argv[0] === 'worker' || argv[0] === 'engine-node') return
  const cleanupMs = argv.includes('serve') || argv.includes('demo') ? SERVE_CLEANUP_MS : CLEANUP_MS
  setTimeout(() => process.exit(exitCode), cleanupMs).unref()
}
