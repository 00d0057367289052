/**
 * The set-up that `src/docs/reference/more-machines.md` tells of, as its script starts it (`test/examples/several-servers/yard.sh`): PostgreSQL, SeaweedFS, two
 * servers, Caddy before them, two workers. Each part is killed with `kill -9` while jobs train and a client chats through the balancer, and
 * started again as whoever supervises it would: every job ends once, nothing is lost, chats go on.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import { hasProxy } from '../../deployment/proxies.js'
import { hasPostgres, NO_POSTGRES } from '../../support/local-postgres.js'
import { isAlive } from '../../support/service/is-alive.js'
import { until } from '../../support/until.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const SCRIPT = path.join(ROOT, 'test/examples/several-servers/yard.sh')
const WEED = path.join(ROOT, '.cache/seaweed-venv/bin/weed')
const JOBS = '/v1/preview/training-jobs'
const BASE_MODEL = 'trainyard/tiny-random'
const STEPS = 40
/** Of a start, in which SeaweedFS may take a minute. */
const START_MS = 400_000

/** Why it cannot be tried here. */
const MISSING = !hasPostgres()
  ? NO_POSTGRES
  : !existsSync(WEED)
    ? 'SeaweedFS is not installed (.ci/run)'
    : !hasProxy('caddy')
      ? 'Caddy is not installed (.ci/run)'
      : spawnSync('curl', ['--version'], { stdio: 'ignore' }).status !== 0
        ? 'curl is not installed'
        : null

/** What goes on while each is dead. */
const PARTS = [
  { part: 'worker1', chats: true, trains: true },
  { part: 'server1', chats: true, trains: true },
  { part: 'store', chats: true, trains: false },
  { part: 'database', chats: false, trains: false },
  { part: 'balancer', chats: false, trains: false },
  { part: 'server2', chats: true, trains: true },
  { part: 'worker2', chats: true, trains: true },
] as const

describe.skipIf(MISSING !== null)(MISSING ?? 'the set-up of several servers', () => {
  let folder: string
  let environment: NodeJS.ProcessEnv
  let url: string
  let serverPorts: readonly number[]
  let key: string

  async function yard(...args: string[]): Promise<void> {
    const child = spawn(SCRIPT, args, { env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
    let errors = ''
    child.stderr.on('data', (chunk) => {
      errors = (errors + chunk).slice(-3000)
    })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`yard.sh ${args.join(' ')} ended with ${code}\n${errors}`)
  }

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'trainyard-yard-'))
    // the database's user has its part of it
    chmodSync(folder, 0o755)
    const store = await freePorts(12)
    url = `http://127.0.0.1:${store + 8}`
    serverPorts = [store + 9, store + 10]
    environment = {
      ...process.env,
      YARD: folder,
      TRAINYARD: `${process.execPath} ${path.join(ROOT, 'bin/trainyard.js')}`,
      WEED,
      BASE_MODEL,
      BALANCER_PORT: String(store + 8),
      SERVER1_PORT: String(store + 9),
      SERVER2_PORT: String(store + 10),
      DATABASE_PORT: String(store + 11),
      STORE_PORT: String(store),
      SERVER_FLAGS: '--threads 1 --resume-interval 0s --job-lease 10s',
      WORKER_FLAGS: '--threads 1',
    }
    await yard('up')
    key = readFileSync(path.join(folder, 'server1/api-key'), 'utf8').trim()
  }, START_MS)

  afterAll(async () => {
    if (MISSING !== null) return
    await yard('down')
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
  }, START_MS)

  const pidOf = (part: string): number => Number(readFileSync(path.join(folder, `${part}.pid`), 'utf8'))

  function request(route: string, json?: object, idempotencyKey?: string): Promise<Response> {
    return fetch(url + route, {
      method: json === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
  }

  /** Asks until it is answered, as a client with retries does: only what passes is asked again. */
  const ask = <T>(route: string, json?: object, idempotencyKey?: string): Promise<T> =>
    until(
      async () => {
        try {
          const response = await request(route, json, idempotencyKey)
          const text = await response.text()
          if (response.ok) return JSON.parse(text) as T & object
          if (response.status < 500) throw new Error(`${route}: ${response.status} ${text}`)
        } catch (error) {
          // nobody listens, or the connection broke
          if (!(error instanceof TypeError)) throw error
        }
        await sleep(100)
        return null
      },
      `an answer of ${route}`,
      200_000,
    )

  it('ends every job once, and answers, whichever part is killed', { timeout: 900_000 }, async () => {
    const models = await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        ask<{ id: string }>('/v1/preview/models', {
          project: 'p',
          name,
          base_model: BASE_MODEL,
          return_existing: true,
        }),
      ),
    )
    const made = new Map<string, string[]>(models.map(({ id }) => [id, []]))
    const jobOf = (id: string) => ask<TrainingJob>(`${JOBS}/${id}`)
    const allJobs = () => Promise.all([...made.values()].flat().map(jobOf))
    const stepsDone = async () => (await allJobs()).reduce((sum, job) => sum + job.num_gradient_steps, 0)
    /** There is always something to train. */
    async function keepBusy(): Promise<void> {
      for (const [model, jobs] of made) {
        const last = jobs.at(-1)
        if (last !== undefined && (await jobOf(last)).training_end === null) continue
        const json = { model_id: model, training_data_url: ROWS, config: { batch_size: 1, learning_rate: 1e-3 } }
        const { id } = await ask<{ id: string }>('/v1/preview/sft-training-jobs', json, `${model} ${jobs.length}`)
        jobs.push(id)
      }
    }

    let isOver = false
    /** Parts that ended are started again, as whoever supervises them does, but for the one that is to stay away. */
    let away: string | null = null
    const supervising = (async () => {
      while (!isOver) {
        for (const { part } of PARTS) if (part !== away && !isAlive(pidOf(part))) await yard('begin', part)
        await sleep(1000)
      }
    })()
    const answers = { good: 0, passing: 0, other: [] as string[] }
    const chatting = (async () => {
      for (let turn = 0; !isOver; turn += 1) {
        const stream = turn % 2 === 0
        const json = { model: BASE_MODEL, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 8, stream }
        try {
          const response = await request('/v1/chat/completions', json)
          const text = await response.text()
          if (response.ok && text.includes('finish_reason')) answers.good += 1
          else if (response.ok || response.status >= 500) answers.passing += 1
          else answers.other.push(`${response.status} ${text}`)
        } catch {
          answers.passing += 1
        }
        await sleep(50)
      }
    })()

    async function untilMore(what: string, count: () => number | Promise<number>): Promise<void> {
      const before = await count()
      await until(async () => (await count()) > before, what, 200_000)
    }

    try {
      for (const { part, chats, trains } of PARTS) {
        await keepBusy()
        await untilMore(`steps before ${part} is killed`, async () => {
          await keepBusy()
          return stepsDone()
        })
        const pid = pidOf(part)
        away = part
        process.kill(pid, 'SIGKILL')
        await until(() => !isAlive(pid), `the end of ${part}`)
        if (chats) await untilMore(`chats without ${part}`, () => answers.good)
        if (trains) await untilMore(`steps without ${part}`, stepsDone)
        away = null
        await until(() => isAlive(pidOf(part)), `${part} to start again`, 60_000)
        // nobody is alone when the next one is killed
        for (const port of serverPorts) await until(() => isHealthy(port), `the server at ${port}`, 200_000)
        await untilMore(`chats with ${part} again`, () => answers.good)
      }
      await until(
        async () => (await allJobs()).every(({ training_end: end }) => end !== null),
        'the end of all jobs',
        400_000,
      )
    } finally {
      isOver = true
      await Promise.all([chatting, supervising])
    }

    const jobs = await allJobs()
    console.log(
      `${PARTS.length} kills, ${jobs.length} jobs, attempts ${jobs.map(({ attempt }) => attempt).join(' ')}; ` +
        `chats: ${answers.good} answered, ${answers.passing} to be asked again`,
    )
    expect(answers.other).toEqual([])
    expect(jobs.map(({ status, error_message: why }) => [status, why ?? null])).toEqual(
      jobs.map(() => ['completed', null]),
    )
    for (const { id } of jobs) {
      const { data } = await ask<{ data: TrainingEvent[] }>(`${JOBS}/${id}/events?limit=100`)
      expect(data.map(({ type }) => type)).toEqual([
        'training_started',
        ...Array<string>(STEPS).fill('gradient_step'),
        'training_ended',
      ])
    }
    for (const [model, ids] of made) {
      const { data } = await ask<{ data: { step: number }[] }>(`/v1/preview/models/${model}/checkpoints`)
      expect(data.map(({ step }) => step).sort((a, b) => a - b)).toEqual(ids.map((_, i) => i + 1))
    }
    // no job but those that were asked for
    const { data: listed } = await ask<{ data: { id: string }[] }>(`${JOBS}?limit=100`)
    expect(listed.map(({ id }) => id).sort()).toEqual([...made.values()].flat().sort())
  })
})

const ROWS = `data:application/jsonl;base64,${Buffer.from(
  Array.from({ length: STEPS }, (_, i) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `What is ${1000 + i}?` },
        { role: 'assistant', content: `It is ${1000 + i}.` },
      ],
    }),
  ).join('\n'),
).toString('base64')}`

const isHealthy = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/v1/health`).then(
    ({ ok }) => ok,
    () => false,
  )

/** The first of so many free ports in a row, below those that systems give to clients. */
async function freePorts(count: number): Promise<number> {
  for (let first = 20_000 + (process.pid % 1000) * count; ; first += count) {
    const isFree = await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const server = createServer().listen(first + i, '127.0.0.1')
        const listening = await once(server, 'listening').then(
          () => true,
          () => false,
        )
        if (listening) await once(server.close(), 'close')
        return listening
      }),
    )
    if (isFree.every(Boolean)) return first
  }
}
