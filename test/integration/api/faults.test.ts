/**
 * Faults: processes killed at any moment, workers that freeze, a full disk, two servers, shutdown.
 *
 * The promise after each: nothing acknowledged is lost, exactly one terminal event, never a torn checkpoint, never two.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TrainingEvent, TrainingJob } from '#contract/wire/training-jobs.js'
import {
  createTestService,
  STAND_INS,
  sampleGroup,
  type TestService,
} from '../../support/service/create-test-service.js'
import { isOnPostgres } from '../../support/service/database-kind.js'
import { isAlive } from '../../support/service/is-alive.js'
import {
  childrenOf,
  type KillableServer,
  type KillableServerOptions,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const RL = '/v1/preview/training-jobs'
let dataDir: string
let closers: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-faults-'))
  closers = []
})
afterEach(async () => {
  for (const close of closers.reverse()) await close()
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

let apiKey = ''
/** With the stand-in worker; the key of the first server on the directory is the later ones'. */
async function startServer(
  options: Pick<KillableServerOptions, 'tuning' | 'seams' | 'trainWorkers'> = {},
): Promise<KillableServer> {
  const seams = { entryPaths: STAND_INS, ...options.seams }
  const server = await startKillableServer({ dataDir, apiKey, ...options, seams })
  closers.push(() => server.kill('SIGKILL'))
  apiKey = server.apiKey
  return server
}

async function submit(server: KillableServer, modelId: string, standIn: object): Promise<string> {
  const json = {
    model_id: modelId,
    trajectory_groups: [sampleGroup()],
    experimental_config: { stand_in: standIn },
  }
  return (await server.call<{ id: string }>(RL, json)).id
}

/** A job whose first attempt never ends by itself, and whose next ones do. */
const HELD_AT_3 = { steps: 6, freeze_at: 3, freeze_ms: 3_600_000, beats_while_frozen: true, only_attempt: 1 }

const eventsOf = async (server: KillableServer, jobId: string) =>
  (await server.call<{ data: TrainingEvent[] }>(`${RL}/${jobId}/events?limit=100`)).data
const untilEnd = (server: KillableServer, jobId: string) =>
  until(async () => {
    const job = await server.call<TrainingJob>(`${RL}/${jobId}`)
    return job.training_end !== null && job
  }, `end of job ${jobId}`)
const stepsOf = async (server: KillableServer, modelId: string) =>
  (await server.call<{ data: { step: number }[] }>(`/v1/preview/models/${modelId}/checkpoints`)).data.map((c) => c.step)

/** One terminal event, no step twice, and a checkpoint exactly if the job completed. */
async function checkPromise(
  server: KillableServer,
  modelId: string,
  jobId: string,
  before: number[] = [],
): Promise<TrainingJob> {
  const job = await untilEnd(server, jobId)
  const events = await eventsOf(server, jobId)
  const terminal = events.filter((event) => event.type === 'training_ended' || event.type === 'training_failed')
  expect(terminal).toHaveLength(1)
  expect(events.at(-1)).toEqual(terminal[0])
  const losses = events.filter((event) => event.type === 'gradient_step').map((event) => event.data['loss'])
  expect(new Set(losses).size).toBe(losses.length)
  // A job that waited behind this one may have committed its own checkpoint by now.
  const steps = (await stepsOf(server, modelId)).filter((step) => job.step === null || step <= job.step)
  expect(steps).toEqual(job.step === null ? before : [...before, job.step])
  return job
}

describe('a killed worker', { timeout: 240_000 }, () => {
  it('at any step: the job runs again from its parent and completes once', async () => {
    const server = await startServer({ trainWorkers: 1 })
    const modelId = await server.createModel()
    const steps: number[] = []
    for (const dieAt of [0, 2]) {
      const jobId = await submit(server, modelId, { steps: 3, die_at: dieAt, only_attempt: 1 })
      const job = await checkPromise(server, modelId, jobId, steps)
      expect(job).toMatchObject({ status: 'completed', attempt: 2, num_gradient_steps: 3 })
      steps.push(job.step ?? 0)
    }
  })

  it('every time: the job fails with one event and the model stays', async () => {
    const server = await startServer()
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { die_at: 1 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job).toMatchObject({ status: 'failed', error_code: 'worker_lost', attempt: 3 })
    expect(job.error_message).toContain('SIGKILL')
  })
})

describe('a slow start', { timeout: 240_000 }, () => {
  it('of many leases costs the job nothing', async () => {
    const server = await startServer({
      tuning: { jobs: { leaseMs: 600 } },
      seams: { environment: { STAND_IN_START_MS: '4500', TRAINYARD_PASS_ENVIRONMENT: 'STAND_IN_START_MS' } },
    })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 2 })
    expect(await checkPromise(server, modelId, jobId)).toMatchObject({ status: 'completed', attempt: 1 })
  })

  it('past its own deadline is tried again, and the job completes', async () => {
    const standIn = { STAND_IN_START_MS: '600000', STAND_IN_START_ATTEMPT: '1' }
    const environment = { ...standIn, TRAINYARD_PASS_ENVIRONMENT: Object.keys(standIn).join() }
    const server = await startServer({ tuning: { jobs: { startMs: 8000 } }, seams: { environment } })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 2 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job.status).toBe('completed')
    expect(job.attempt).toBeGreaterThan(1)
  })
})

describe('a frozen worker', { timeout: 240_000 }, () => {
  it('that wakes past its lease can change nothing', async () => {
    const server = await startServer({ tuning: { jobs: { leaseMs: 800 } } })
    const modelId = await server.createModel()
    const jobId = await submit(server, modelId, { steps: 3, freeze_at: 1, freeze_ms: 600_000, only_attempt: 1 })
    const job = await checkPromise(server, modelId, jobId)
    expect(job).toMatchObject({ status: 'completed', attempt: 2 })
    await sleep(500)
    expect(await checkPromise(server, modelId, jobId)).toEqual(job)
  })

  it('that sends heartbeats but makes no progress is given up', async () => {
    const server = await startServer({ tuning: { jobs: { stallMs: 8000 } } })
    const modelId = await server.createModel()
    const standIn = { steps: 3, freeze_at: 1, freeze_ms: 600_000, beats_while_frozen: true, only_attempt: 1 }
    const job = await checkPromise(server, modelId, await submit(server, modelId, standIn))
    expect(job).toMatchObject({ status: 'completed', attempt: 2 })
  })
})

describe('a killed server', { timeout: 240_000 }, () => {
  it('in the middle of a job: nothing is lost, children die with it, the job completes after the restart', async () => {
    const first = await startServer()
    const modelId = await first.createModel()
    const done = await submit(first, modelId, { steps: 1 })
    expect((await untilEnd(first, done)).status).toBe('completed')
    const running = await submit(first, modelId, HELD_AT_3)
    const queued = await submit(first, modelId, { steps: 2 })
    await until(async () => (await eventsOf(first, running)).length > 3, 'some steps')
    const seen = await eventsOf(first, running)
    const children = childrenOf(first.pid)
    expect(children.length).toBeGreaterThanOrEqual(2)
    await first.kill('SIGKILL')
    await until(() => !children.some(isAlive), 'death of the children')

    const second = await startServer()
    const job = await checkPromise(second, modelId, running, [1])
    expect(job).toMatchObject({ status: 'completed', attempt: 2, step: 2 })
    expect((await eventsOf(second, running)).slice(0, seen.length)).toEqual(seen)
    expect(await checkPromise(second, modelId, queued, [1, 2])).toMatchObject({ status: 'completed', step: 3 })
    // What is still being written lies there for a moment; what a crash left would lie there for ever.
    await until(
      async () => (await readdir(join(dataDir, 'blobs/incoming'))).length === 0,
      'an empty folder of half-written blobs',
    )
  })

  it('at random moments of short jobs: every acknowledged job ends once', async () => {
    let server = await startServer()
    const modelId = await server.createModel()
    const jobs: string[] = []
    for (const delayMs of [150, 400, 700]) {
      jobs.push(await submit(server, modelId, { steps: 4, delay_ms: 30, round: delayMs }))
      await sleep(delayMs)
      await server.kill('SIGKILL')
      server = await startServer()
    }
    const ended: TrainingJob[] = []
    for (const id of jobs) ended.push(await untilEnd(server, id))
    const steps = ended.flatMap((job) => job.step ?? [])
    expect(await stepsOf(server, modelId)).toEqual(steps)
    for (const job of ended) {
      expect(
        (await eventsOf(server, job.id)).filter(
          (event) => event.type.startsWith('training_e') || event.type === 'training_failed',
        ),
      ).toHaveLength(1)
    }
  })

  it('leaves its directory free, and a second one refuses while the first lives', async () => {
    const first = await startServer()
    await expect(startServer()).rejects.toThrow('data_dir_locked')
    await first.kill('SIGKILL')
    await startServer()
  })
})

describe('shutdown', { timeout: 240_000 }, () => {
  it('takes no new work, queues the running job again without counting it as lost, leaves one clean database file', async () => {
    const first = await startServer()
    const modelId = await first.createModel()
    const jobId = await submit(first, modelId, HELD_AT_3)
    await until(async () => (await eventsOf(first, jobId)).length > 2, 'some steps')
    await first.kill('SIGTERM')
    const files = (await readdir(dataDir)).filter((name) => name.startsWith('trainyard.sqlite3'))
    expect(files).toEqual(['trainyard.sqlite3'])
    const second = await startServer()
    expect(await checkPromise(second, modelId, jobId)).toMatchObject({ status: 'completed', attempt: 2 })
  })

  it('refuses what still comes, in words that a client retries by', async () => {
    const service = await createTestService({ dataDir })
    const headers = { authorization: `Bearer ${service.apiKey}` }
    expect((await service.app.request('/v1/preview/models', { headers })).status).toBe(200)
    const closing = service.close(10_000)
    const refused = await service.app.request('/v1/preview/models', { headers })
    expect([refused.status, await refused.json()]).toEqual([
      503,
      expect.objectContaining({ error: expect.objectContaining({ code: 'shutting_down' }) }),
    ])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    await closing
  })
})

// the file is limited here; the disk of PostgreSQL is its own
describe.skipIf(isOnPostgres())('a disk that is full', { timeout: 240_000 }, () => {
  let service: TestService
  it('refuses writes with a clear error, goes on reading, and works again when space returns', async () => {
    // room for the tables, however many there are by now, and a little more
    const roomy = await createTestService({ dataDir })
    await roomy.close(500)
    const { size } = await stat(join(dataDir, 'trainyard.sqlite3'))
    service = await roomy.restart({ seams: { maxDatabasePages: size / 4096 + 40 } })
    closers.push(() => service.close(500))
    const create = (name: string) =>
      service.json<{ id: string }>('/v1/preview/models', {
        json: { project: 'p'.repeat(200), name, base_model: 'trainyard/tiny-random' },
      })
    let made = 0
    let refused = await create('m0')
    while (refused.status === 200 && made < 3000) {
      made += 1
      refused = await create(`m${made}-${'x'.repeat(200)}`)
    }
    expect([refused.status, JSON.stringify(refused.body)]).toEqual([503, expect.stringContaining('disk_full')])
    expect((await service.json('/v1/preview/models?limit=5')).status).toBe(200)
    const again = await service.restart({ seams: { maxDatabasePages: 100_000 } })
    closers.push(() => again.close(500))
    const { status } = await again.json('/v1/preview/models', {
      json: { project: 'p', name: 'after', base_model: 'trainyard/tiny-random' },
    })
    expect(status).toBe(200)
  })
})
