/**
 * What the page's views cost a server with 10,000 models, one of them with 2,000 steps and 1,000 jobs: all requests of a view at once, as
 * a browser sends them, until the last answer is read. Beside the clock's time, for machines
 * that are busy with something else, the processor time of the event loop. Then ten browsers that follow what happens: what the server holds with them, and the
 * gaps between the pieces of a chat beside them.
 *
 *     npm run bench -- page
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSqlite } from '../../dist/src/service/storage/sqlite.js'
import { fillLargeDatabase, LARGE_MODEL } from '../support/large-database.js'
import { startService } from '../support/service/service-process.js'
import { scheduled } from './loads/pages.js'
import { createClient, quantile } from './support/http-load.js'

const { openDatabase } = await import('../../dist/src/service/storage/database.js')
const { parts } = await import('../support/built-parts.mjs')
const { createLocalKey } = await import('../../dist/src/plugins/data-directory.js')

export const title = 'The page: 10,000 models, 1,000 jobs and 2,000 steps of one'

const COUNTS = { models: 10_000, jobs: 1000, steps: 2000, gradientSteps: 2000 }
const ROUNDS = 30
const BROWSERS = 10
const CHATS = 20

export async function run(_options, print = () => {}) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-bench-page-'))
  try {
    const file = path.join(directory, 'trainyard.sqlite3')
    await (await openDatabase(file, { parts })).close()
    const sqlite = openSqlite(file)
    const job = fillLargeDatabase(sqlite, COUNTS)
    sqlite.close()
    await createLocalKey(directory)
    const service = await startService({ keptDir: directory, args: ['--base-model', 'trainyard/tiny-random'] })
    try {
      // a browser has six connections to a host
      const call = createClient(service, 6)
      for (const [name, paths] of Object.entries(views(job))) print(await timed(call, name, paths, service.child.pid))
      for (const row of await watched(service)) print(row)
      return []
    } finally {
      await service.stop()
    }
  } finally {
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** View → the requests of it. */
function views(job) {
  const model = `/v1/preview/models/${LARGE_MODEL}`
  const list = '/v1/preview/models?limit=50&include=summary'
  return {
    'all models, by last activity': [
      `${list}&sort=-last_active`,
      '/v1/preview/training-jobs?status=running&limit=20',
      '/v1/preview/training-jobs?status=queued&limit=20',
      '/v1/preview/base-models',
    ],
    'all models, by name': [`${list}&sort=name`],
    'a search': [`${list}&sort=-last_active&query=n99`],
    'a search that finds nothing': [`${list}&sort=-last_active&query=none`],
    'a model: 2,000 steps, 1,000 jobs': [
      '/v1/preview/models?project=default&name=n0&limit=1',
      `${model}/metrics?points=1000`,
      `/v1/preview/training-jobs?model_id=${LARGE_MODEL}&limit=20`,
    ],
    'its 1,000 checkpoints, the first hundred': [`${model}/checkpoints?order=desc&limit=100`],
    jobs: ['/v1/preview/training-jobs?limit=50', model],
    'failed jobs, of which there are none': ['/v1/preview/training-jobs?limit=50&status=failed'],
    'a job of 2,000 gradient steps, its newest events': [
      `/v1/preview/training-jobs/${job}`,
      `/v1/preview/training-jobs/${job}/events?limit=100`,
      model,
    ],
  }
}

async function timed(call, name, paths, pid) {
  const times = []
  const processor = []
  let firstMs = 0
  for (let i = 0; i <= ROUNDS; i += 1) {
    const { runMs } = scheduled(pid)
    const startMs = performance.now()
    const answers = await Promise.all(paths.map((address) => call('GET', address)))
    const timeMs = performance.now() - startMs
    for (const [at, { status, text }] of answers.entries()) {
      if (status !== 200) throw new Error(`${paths[at]}: ${status} ${text.slice(0, 300)}`)
    }
    if (i === 0) firstMs = timeMs
    else {
      times.push(timeMs)
      processor.push(scheduled(pid).runMs - runMs)
    }
  }
  const beside = `median ${quantile(times, 0.5).toFixed(0)}, the first ${firstMs.toFixed(0)}, processor ${quantile(processor, 0.5).toFixed(0)}`
  return { name: `${name} (${beside})`, value: quantile(times, 0.95), unit: 'ms p95', target: '<= 200' }
}

/** The same chats alone and beside browsers that follow everything while models come and go. */
async function watched(service) {
  const residentMb = () =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.child.pid}/status`, 'utf8'))?.[1]) / 1024
  await chatGaps(service)
  const alone = await chatGaps(service)
  const beforeMb = residentMb()
  const agent = new Agent({ keepAlive: true, maxSockets: BROWSERS })
  const call = createClient(service, 4)
  const streams = await Promise.all(Array.from({ length: BROWSERS }, () => follow(service, agent)))
  let isDone = false
  const changing = (async () => {
    for (let n = 0; !isDone; n += 1) {
      const body = { project: 'default', name: `made-${n}`, base_model: 'trainyard/tiny-random' }
      const made = JSON.parse((await call('POST', '/v1/preview/models', body)).text)
      await call('DELETE', `/v1/preview/models/${made.id}`)
      await sleep(100)
    }
  })()
  const beside = await chatGaps(service)
  isDone = true
  await changing
  const afterMb = residentMb()
  const events = streams.map(({ count }) => count())
  for (const { end } of streams) end()
  return [
    { name: `chat, gaps between pieces, alone (p99 ${alone.p99.toFixed(1)})`, value: alone.p50, unit: 'ms p50' },
    {
      name: `the same beside ${BROWSERS} browsers, each told ${Math.min(...events)} events (p99 ${beside.p99.toFixed(1)})`,
      value: beside.p50,
      unit: 'ms p50',
      ratio: beside.p50 / alone.p50,
    },
    { name: `memory of the server with them (before ${beforeMb.toFixed(0)})`, value: afterMb, unit: 'MB' },
  ]
}

/** One browser's stream. */
function follow({ url, key }, agent) {
  return new Promise((resolve, reject) => {
    let text = ''
    const sent = request(
      `${url}/v1/preview/events`,
      { agent, headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' } },
      (response) => {
        response.setEncoding('utf8')
        response.on('data', (part) => {
          text += part
        })
        response.on('error', () => undefined)
        resolve({ count: () => text.split('\ndata:').length - 1, end: () => sent.destroy() })
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}

/** Milliseconds between the pieces of some chats, one after the other. */
async function chatGaps({ url, key }) {
  const gaps = []
  for (let i = 0; i < CHATS; i += 1) {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'trainyard/tiny-random',
        messages: [{ role: 'user', content: `Hello ${i}` }],
        max_tokens: 100,
        ignore_eos: true,
        stream: true,
      }),
    })
    if (!response.ok) throw new Error(`chat: ${response.status} ${await response.text()}`)
    let lastMs = null
    for await (const _ of response.body) {
      const nowMs = performance.now()
      if (lastMs !== null) gaps.push(nowMs - lastMs)
      lastMs = nowMs
    }
  }
  return { p50: quantile(gaps, 0.5), p99: quantile(gaps, 0.99) }
}
