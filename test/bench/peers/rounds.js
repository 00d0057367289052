/**
 * Alternates both sides over several rounds and takes medians, so that a slow minute of the machine hits both.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { HOW, isInstalled } from './node-llama.js'
import { hasModel, MODEL, Q8_MODEL } from './ours.js'
import { ensureQ8Gguf } from './q8-gguf.js'

const SCRIPT = path.join(import.meta.dirname, 'measure.js')
const ROUNDS = 3

/**
 * Measures the peer and each of our sides.
 *
 * @param peer what the peer measures, and `sides` what we do, by name
 * @returns name → key → median, or a string that says why it cannot run
 */
export async function alternate(peer, sides) {
  if (!hasModel) return 'no model: npm run model:smollm2'
  if (!isInstalled()) return `no peer: ${HOW}`
  if (!existsSync(Q8_MODEL)) await ensureQ8Gguf(MODEL, Q8_MODEL)
  const all = { peer: { side: 'peer', ...peer }, ...sides }
  const measured = Object.fromEntries(Object.keys(all).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, wanted] of Object.entries(all)) measured[name].push(once(wanted))
  }
  return Object.fromEntries(Object.entries(measured).map(([name, rounds]) => [name, medians(rounds)]))
}

function once(wanted) {
  const output = execFileSync(process.execPath, [SCRIPT, wanted.side ?? 'ours', JSON.stringify(wanted)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return JSON.parse(output.trim().split('\n').at(-1))
}

function medians(rounds) {
  const keys = Object.keys(rounds[0])
  return Object.fromEntries(
    keys.map((key) => [key, rounds.map((round) => round[key]).sort((a, b) => a - b)[Math.floor(rounds.length / 2)]]),
  )
}
