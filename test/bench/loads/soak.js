/**
 * Streams for a long time, a tenth of them left in the middle, and the memory of the server and its engine meanwhile.
 *
 *     node test/bench/loads/soak.js [minutes = 30] [streams = 32]
 *
 * Memory is flat when the last quarter's median is within a few percent of the second quarter's: the first fills the caches.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { startService } from '../../support/service/service-process.js'
import { textOf } from '../peers/streams.js'

const MODEL = 'trainyard/spark'
const SAMPLES = 40

const minutes = Number(process.argv[2] ?? 30)
const streams = Number(process.argv[3] ?? 32)
const service = await startService({
  args: ['--max-sequences', String(streams), '--log-level', 'warn', '--log-format', 'json'],
})
const loud = []
service.child.stderr.on('data', (chunk) => loud.push(chunk.toString()))
const endMs = performance.now() + minutes * 60_000
let seed = 1
let finished = 0
let left = 0

async function client() {
  while (performance.now() < endMs) {
    const number = seed++
    const controller = new AbortController()
    const response = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      signal: controller.signal,
      headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: MODEL,
        messages: [{ role: 'user', content: textOf(4 + (number % 60), number) }],
        max_tokens: 16 + ((number * 37) % 200),
        ignore_eos: true,
        stream: true,
      }),
    })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    const leavesAfter = number % 10 === 0 ? 5 : Number.POSITIVE_INFINITY
    let parts = 0
    try {
      for await (const _ of response.body) if (++parts > leavesAfter) controller.abort()
      finished++
    } catch {
      left++
    }
  }
}

const memory = []
const timer = setInterval(() => memory.push(residentMb()), (minutes * 60_000) / SAMPLES)
await Promise.all(Array.from({ length: streams }, client))
clearInterval(timer)
const quarter = Math.floor(memory.length / 4)
for (const [name, at] of [
  ['server', 0],
  ['engine', 1],
]) {
  const values = memory.map((sample) => sample[at])
  const [second, last] = [median(values.slice(quarter, 2 * quarter)), median(values.slice(-quarter))]
  const ratio = (last / second).toFixed(3)
  console.log(
    `${name}: second quarter ${second} MB, last quarter ${last} MB, ratio ${ratio}, most ${Math.max(...values)} MB`,
  )
}
console.log(`${finished} answers, ${left} left in the middle, ${loud.join('').split('\n').length - 1} lines above info`)
process.stdout.write(loud.slice(0, 5).join(''))
await service.stop()

/** Resident memory of the server and of its largest child. */
function residentMb() {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === service.child.pid)
  return [rss(service.child.pid), Math.max(0, ...children.map(rss))]
}

function rss(pid) {
  try {
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024)
  } catch {
    return 0
  }
}

function parentOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return 0
  }
}

function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1]
}
