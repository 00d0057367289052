/**
 * The server's wall clock is set while it works, by an hour and by days, back and forward: jobs run to their ends, lists and
 * cursors lose and repeat nothing, messages are sent. The clock of the real process is moved by libfaketime; monotonic time goes on.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createApi, startService } from '../../support/service/service-process.js'

const LIBRARY = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file))
const HOUR = 3600
const DAY = 24 * HOUR
const PATIENCE = { timeout: 120_000, interval: 200 }
/** What the server's log says when it saw the jump. */
const SEEN = 'clock.set'

type Service = Awaited<ReturnType<typeof startService>>

let directory: string
let receiver: Server
let received: string[]
/** Statuses to answer messages with; then 200. */
let answers: number[]
let service: Service
let log: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'clock-'))
  received = []
  answers = []
  receiver = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      const status = answers.shift() ?? 200
      if (status === 200) received.push((JSON.parse(body) as { type: string }).type)
      response.writeHead(status).end()
    })
  })
  await new Promise<void>((done) => receiver.listen(0, '127.0.0.1', done))
})
afterEach(async () => {
  await service.stop()
  receiver.closeAllConnections()
  await new Promise((done) => receiver.close(done))
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

const host = () => `127.0.0.1:${(receiver.address() as AddressInfo).port}`
const clockFile = () => path.join(directory, 'clock')
const dataDir = () => path.join(directory, 'data')

/** Sets the server's clock to that many seconds from the real one. */
const setClock = (seconds: number) => writeFile(clockFile(), `${seconds < 0 ? '' : '+'}${seconds}`)

async function start(seconds: number): Promise<Service> {
  await setClock(seconds)
  const started = await startService({
    keptDir: dataDir(),
    args: ['--webhook-host', host(), '--log-format', 'lines'],
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: clockFile(),
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  })
  log = ''
  started.child.stderr.on('data', (chunk: Buffer) => {
    log += chunk.toString()
  })
  return started
}

async function jumpTo(seconds: number): Promise<void> {
  const from = log.length
  await setClock(seconds)
  await vi.waitFor(() => expect(log.slice(from)).toContain(SEEN), PATIENCE)
}

async function train({ api }: Service, modelId: string, file: string) {
  return api.call('POST', '/v1/preview/sft-training-jobs', {
    model_id: modelId,
    training_data_url: file,
    config: { batch_size: 1 },
  })
}

const rows = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    messages: [
      { role: 'user', content: `Say ${i}.` },
      { role: 'assistant', content: `${i}` },
    ],
  }))

/** All ids of a list, one to a page. */
async function walk({ api }: Service, route: string): Promise<string[]> {
  const ids: string[] = []
  for (let after = ''; ; after = `&after=${ids.at(-1)}`) {
    const page = await api.call('GET', `${route}?limit=1${after}`)
    ids.push(...page.data.map(({ id }: { id: string }) => id))
    if (page.has_more !== true) return ids
  }
}

describe.skipIf(LIBRARY === undefined)('a clock that is set (skipped without libfaketime, see .ci/run)', () => {
  test('while jobs run, messages wait and lists are paged', { timeout: 600_000 }, async () => {
    service = await start(0)
    const { api, url } = service
    const hook = await api.call('POST', '/v1/preview/webhooks', { url: `http://${host()}/` })
    const key = await api.call('POST', '/v1/preview/keys', { name: 'k', scope: 'read', expires_in_seconds: 2 * HOUR })
    const guest = createApi(url, key.key)
    const model = await api.createModel('m', 'trainyard/spark')
    const file = await api.uploadRows(rows(30))
    const jobs: string[] = []
    const run = async (jump: () => Promise<void>) => {
      const job = await train(service, model.id, file)
      jobs.unshift(job.id)
      let jumped: Promise<void> | null = null
      const events = await api.waitForJob(job.id, () => {
        jumped ??= jump()
      })
      await jumped
      expect(events.filter(({ type }: { type: string }) => type === 'gradient_step')).toHaveLength(30)
    }
    // the first message is refused once, and is due again when the clock has gone back an hour
    answers = [500]
    await run(() => jumpTo(-HOUR))
    await run(() => jumpTo(10 * DAY))
    await expect(guest.call('GET', '/v1/preview/models')).rejects.toThrow('401')
    await run(() => jumpTo(-3 * DAY))
    expect((await guest.call('GET', '/v1/preview/models')).data).toHaveLength(1)

    // nobody took a job from its worker
    expect(log).not.toMatch(/job\.(worker_lost|lease_expired)/)
    expect(await walk(service, '/v1/preview/training-jobs')).toEqual(jobs)
    const steps = (await api.call('GET', `/v1/preview/models/${model.id}/checkpoints?limit=100`)).data
    expect(steps.map(({ step }: { step: number }) => step).sort()).toEqual([1, 2, 3])
    const { data: days } = await api.call('GET', '/v1/usage?from=2000-01-01&to=2199-01-01')
    const seconds = days.reduce((sum: number, day: { training_seconds: number }) => sum + day.training_seconds, 0)
    expect(seconds).toBeGreaterThan(0)
    // a jump counts as no training
    expect(seconds).toBeLessThan(HOUR / 2)

    await vi.waitFor(() => expect(received).toHaveLength(9), PATIENCE)
    const sent = await walk(service, `/v1/preview/webhooks/${hook.id}/deliveries`)
    expect(new Set(sent).size).toBe(9)
    expect([...received].sort()).toEqual(
      ['checkpoint.created', 'training_job.completed', 'training_job.started'].flatMap((type) => [type, type, type]),
    )
  })

  test('between two runs of the server', { timeout: 600_000 }, async () => {
    service = await start(DAY)
    await service.api.call('POST', '/v1/preview/webhooks', { url: `http://${host()}/` })
    const names = ['a', 'b', 'c']
    const models: { id: string }[] = []
    for (const name of names) models.push(await service.api.createModel(name, 'trainyard/spark'))
    const file = await service.api.uploadRows(rows(2))
    const first = await train(service, models[0]?.id ?? '', file)
    await service.api.waitForJob(first.id)
    const cursor = (await walk(service, '/v1/preview/models')).at(-1)
    // its waits begin in the future
    const ended = new Promise((done) => service.child.once('exit', done))
    service.child.kill('SIGKILL')
    await ended

    service = await start(0)
    const key = (await readFile(path.join(dataDir(), 'api-key'), 'utf8')).trim()
    expect(key).toBe(service.key)
    const { api } = service
    const added = await api.createModel('d', 'trainyard/spark')
    expect((await api.call('GET', `/v1/preview/models?after=${cursor}`)).data).toMatchObject([{ id: added.id }])
    expect(await walk(service, '/v1/preview/models')).toEqual([...models.map(({ id }) => id), added.id])
    const second = await train(service, added.id, file)
    await api.waitForJob(second.id)
    expect(await walk(service, '/v1/preview/training-jobs')).toEqual([second.id, first.id])
    await vi.waitFor(() => expect(received).toHaveLength(6), PATIENCE)
  })
})
