/**
 * First process of a group that ends as a whole: runs a program, and kills the group when its parent is gone or the program has
 * ended.
 *
 * vLLM's engine and workers live on when its server is killed, with all their memory. Whoever starts this detached has them in
 * one group, and its stdin tells of the parent's end however that came. Arguments: the program and its own.
 */
import { readEnvironment } from '#base/environment.js'
import { spawnProcess } from '#base/processes/start-process.js'

const [command = '', ...args] = process.argv.slice(2)

function endGroup(): never {
  // this process is in it
  process.kill(-process.pid, 'SIGKILL')
  process.exit(1)
}

process.stdin.on('end', endGroup)
process.stdin.on('error', endGroup)
process.stdin.resume()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
const program = spawnProcess(command, args, {
  // all that this process was given was meant for it
  inherits: { environment: readEnvironment(), needs: 'everything' },
  stdio: ['ignore', 2, 2],
})
program.once('error', (error) => {
  process.stderr.write(`${command} could not be started: ${error.message}\n`)
  endGroup()
})
program.once('exit', (code, signal) => {
  process.stderr.write(`${command} ${signal === null ? `exited with code ${code}` : `was killed by ${signal}`}\n`)
  endGroup()
})
