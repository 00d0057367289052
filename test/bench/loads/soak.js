/**
 * Streams for a long time: some with an adapter, some held to a schema, some with several choices, a fifth of them left at a random
 * moment, also before they begin; and the memory of the server and its engine meanwhile.
 *
 *     node test/bench/loads/soak.js [minutes = 30] [streams = 32]
 *
 * Memory is flat when the last quarter's median is within a few percent of the second quarter's: the first fills the caches. In
 * the end nothing may run, wait or have been said, and a minute later the engine is to hold little more than at its start.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { startService } from '../../support/service/service-process.js'
import { textOf } from '../peers/streams.js'
import { median } from '../support/median.js'

const MODEL = 'trainyard/spark'
const SAMPLES = 60

/** What an idle connection says that the server gives up in the moment it is used again, as after a pause of this machine. */
const CLOSED = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])
let reset = 0
const fetchOnce = globalThis.fetch
globalThis.fetch = async (...request) => {
  for (;;) {
    try {
      return await fetchOnce(...request)
    } catch (error) {
      if (!CLOSED.has(error.cause?.code)) throw error
      reset++
    }
  }
}

const minutes = Number(process.argv[2] ?? 30)
const streams = Number(process.argv[3] ?? 32)
const service = await startService({
  args: ['--max-sequences', String(streams), '--log-level', 'warn', '--log-format', 'json'],
})
const loud = []
service.child.stderr.on('data', (chunk) => loud.push(chunk.toString()))
await ask({ model: MODEL, messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 16 })
const startMb = residentMb()
const adapters = await trainedModels(3)
const endMs = performance.now() + minutes * 60_000
let seed = 1
let finished = 0
let left = 0

async function client() {
  while (performance.now() < endMs) {
    const number = seed++
    const controller = new AbortController()
    // after so many parts of the answer, or so many milliseconds, before which nothing may have begun
    const leavesAfter = number % 10 === 0 ? 1 + Math.floor(Math.random() * 40) : Number.POSITIVE_INFINITY
    if (number % 10 === 5) setTimeout(() => controller.abort(), Math.random() * 1500)
    let parts = 0
    try {
      const response = await ask(requestOf(number), controller.signal)
      for await (const _ of response.body) {
        if (++parts <= leavesAfter) continue
        controller.abort()
        // the loop does not always hear of the abort: Node 20 may have the rest of the answer already
        break
      }
      if (controller.signal.aborted) left++
      else finished++
    } catch (error) {
      if (!controller.signal.aborted) throw error
      left++
    }
  }
}

async function ask(request, signal) {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    signal,
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return response
}

function requestOf(number) {
  return {
    model: number % 4 === 0 ? adapters[(number / 4) % adapters.length] : MODEL,
    messages: [{ role: 'user', content: textOf(4 + (number % 60), number) }],
    max_tokens: 8 + ((number * 37) % 60),
    stream: true,
    ...(number % 7 === 0 ? { response_format: schemaOf(number) } : { ignore_eos: true }),
    ...(number % 11 === 0 ? { n: 4 } : {}),
    ...(number % 13 === 0 ? { logprobs: true, top_logprobs: 5 } : {}),
  }
}

/** One of twelve, more than the engine keeps. */
function schemaOf(number) {
  const name = `answer_${(number / 7) % 12}`
  const properties = { [name]: { type: 'string', maxLength: 20 }, count: { type: 'integer' } }
  return { type: 'json_schema', json_schema: { name, schema: { type: 'object', properties, required: [name] } } }
}

/** Models with an adapter of their own. */
async function trainedModels(count) {
  const { api } = service
  const messages = [
    { role: 'user', content: 'Write.' },
    { role: 'assistant', content: textOf(10, 1) },
  ]
  const file = await api.uploadRows([{ messages }, { messages }])
  const names = []
  for (let i = 0; i < count; i++) {
    const model = await api.createModel(`soak-${i}`, MODEL)
    const config = { batch_size: 1, learning_rate: 1e-3 }
    const body = { model_id: model.id, training_data_url: file, config }
    const job = await api.call('POST', '/v1/preview/sft-training-jobs', body)
    await api.waitForJob(job.id)
    names.push(`demo/soak-${i}`)
  }
  return names
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
await new Promise((resolve) => setTimeout(resolve, 60_000))
const [before, after] = [startMb[1], residentMb()[1]]
console.log(
  `engine: ${before} MB at its start, ${after} MB a minute after the last answer, ratio ${(after / before).toFixed(2)}`,
)
console.log(
  `${finished} answers, ${left} left in the middle, ${reset} met a closed connection, ${loud.join('').split('\n').length - 1} lines above info`,
)
process.stdout.write(loud.slice(0, 5).join(''))
const metrics = await (
  await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${service.key}` } })
).text()
const inUse = metrics
  .split('\n')
  .filter((line) => /num_requests_(?:running|waiting)|kv_cache_usage_perc/.test(line) && !line.startsWith('#'))
console.log(inUse.join('\n'))
await service.stop()

/** Resident memory of the server and of its engine. */
function residentMb() {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === service.child.pid)
  return [rss(service.child.pid), Math.max(0, ...children.filter(isEngine).map(rss))]
}

function isEngine(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('inference/host/main.js')
  } catch {
    return false
  }
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
