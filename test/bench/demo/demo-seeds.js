/**
 * The demo as a newcomer runs it, ten times with different seeds, each on a fresh data directory and a server of its own:
 * held-out reward before and after, gain, seconds from the command to its end.
 *
 *     npm run build && node test/bench/demo/demo-seeds.js [first=1] [last=10] [flags of the demo, for example --task sort]
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const BIN = path.resolve(import.meta.dirname, '../../../bin/trainyard.js')
const WANTED_GAIN = 0.3
const WANTED_SECONDS = 90

const isNumber = (text) => /^\d+$/.test(text ?? '')
const given = process.argv.slice(2)
const [first, last] = [isNumber(given[0]) ? Number(given[0]) : 1, isNumber(given[1]) ? Number(given[1]) : 10]
const flags = given.filter((text, index) => index > 1 || !isNumber(text))

console.log('| seed | before | after | gain | steps | seconds | ended because |')
console.log('| --- | --- | --- | --- | --- | --- | --- |')
const runs = []
for (let seed = first; seed <= last; seed++) {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'trainyard-demo-'))
  const startedAt = performance.now()
  try {
    const argv = [BIN, 'demo', '--json', '--seed', String(seed), '--data-dir', dataDir, ...flags]
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8', maxBuffer: 2 ** 28 })
    if (status !== 0) throw new Error(`seed ${seed} ended with ${status}\n${stderr}`)
    const end = JSON.parse(stdout.trimEnd().split('\n').at(-1))
    const seconds = (performance.now() - startedAt) / 1000
    runs.push({ gain: end.gain, seconds })
    const cells = [seed, end.before.toFixed(3), end.after.toFixed(3), end.gain.toFixed(3), end.step, seconds.toFixed(1)]
    console.log(`| ${[...cells, end.reason].join(' | ')} |`)
  } finally {
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 20 })
  }
}
const isReached = (run) => run.gain >= WANTED_GAIN && run.seconds < WANTED_SECONDS
const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length
console.log(
  `${runs.filter(isReached).length} of ${runs.length} runs gained at least ${WANTED_GAIN} in under ${WANTED_SECONDS} s;` +
    ` mean gain ${mean(runs.map((run) => run.gain)).toFixed(3)}, least ${Math.min(...runs.map((run) => run.gain)).toFixed(3)};` +
    ` mean time ${mean(runs.map((run) => run.seconds)).toFixed(1)} s, longest ${Math.max(...runs.map((run) => run.seconds)).toFixed(1)} s`,
)
