/**
 * Preloaded into a server: on SIGUSR2 it collects garbage and writes what it holds to the file of TELL_RESOURCES, as one line of JSON.
 *
 * Children get the same options from their parent and are left as they are: only the process named there tells.
 */
const { appendFileSync } = require('node:fs')
const { setFlagsFromString } = require('node:v8')
const { runInNewContext } = require('node:vm')
const { isMainThread } = require('node:worker_threads')

const file = process.env.TELL_RESOURCES
if (file !== undefined && isMainThread && process.argv.includes('serve')) {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc')
  process.on('SIGUSR2', () => {
    collect()
    const { heapUsed, external } = process.memoryUsage()
    const heapBytes = heapUsed + external
    const handles = process.getActiveResourcesInfo().length
    appendFileSync(file, `${JSON.stringify({ heapBytes, heapMb: Math.round(heapBytes / 1e6), handles })}\n`)
  })
}
