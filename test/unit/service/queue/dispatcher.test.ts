/**
 * The dispatcher with workers that are objects: which losses count, what a slow start and a slept lease do.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import {
  createDispatcher,
  DEFAULT_JOB_TIMING,
  type Dispatcher,
  type DispatcherOptions,
  type JobTiming,
} from '#service/queue/dispatcher.js'
import { alone } from '#service/queue/peers.js'
import { createJob } from '#service/queue/queue.js'
import { recoverInterrupted } from '#service/queue/recovery.js'
import { createJobSignals } from '#service/queue/signals.js'
import type { Work } from '#service/queue/work.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { createJobFixture, type JobFixture, ONCE, TEST_WORKER } from '../../../support/service/job-fixture.js'

/** A worker process that is only an object: it lives until it is killed or told how to end. */
interface StandIn extends Work {
  readonly kill: ReturnType<typeof vi.fn>
  end(reason: string): void
}

const SWEEP_MS = 500
let fixture: JobFixture
let dispatcher: Dispatcher
let workers: StandIn[]

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  fixture = await createJobFixture()
  workers = []
})
afterEach(async () => {
  await dispatcher.stop()
  vi.useRealTimers()
  await fixture.close()
})

function start(
  timing: Partial<JobTiming> = {},
  trainWorkers = 1,
  hasRoom?: () => boolean,
  more: Partial<DispatcherOptions> = {},
): void {
  dispatcher = createDispatcher({
    db: fixture.db,
    ids: systemIds,
    logger: createLogger({ level: 'silent' }),
    signals: createJobSignals(),
    timing: { ...DEFAULT_JOB_TIMING, sweepMs: SWEEP_MS, backoffMs: 0, ...timing },
    trainWorkers,
    localWorker: TEST_WORKER,
    ...(hasRoom === undefined ? {} : { hasRoom }),
    startWorker: (work) => {
      let end: (reason: string) => void = () => undefined
      const ended = new Promise<string>((resolve) => {
        end = resolve
      })
      const kill = vi.fn(() => end('the worker was killed by SIGKILL'))
      workers.push({ ...work, kill, end })
      return { ended, kill }
    },
    ...more,
  })
  dispatcher.start()
}

async function submit(modelId?: string): Promise<string> {
  const { job } = await createJob(fixture.db, fixture.newJob(modelId), ONCE)
  dispatcher.wake()
  return job.id
}

/** Lets the dispatcher's timer fire for so long, a sweep at a time. */
async function pass(timeMs: number): Promise<void> {
  for (let at = 0; at < timeMs; at += SWEEP_MS) {
    vi.advanceTimersByTime(SWEEP_MS)
    if (at % 20_000 === 0) await settle()
  }
  await settle()
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 5))
const until = (check: () => void | Promise<void>) => vi.waitFor(check, { timeout: 20_000, interval: 5 })
const jobOf = async (id: string): Promise<JobRecord> => {
  const job = await findJob(fixture.db, id)
  if (job === null) throw new Error('the job is gone')
  return job
}
const sleepThroughLease = () => fixture.db.updateTable('training_jobs').set({ lease_expires_at_ms: 1 }).execute()
const workerAt = (index: number): StandIn => {
  const worker = workers[index]
  if (worker === undefined) throw new Error(`worker ${index} was not started`)
  return worker
}

describe('a worker that is slow to start', () => {
  it('keeps its job beyond the lease and loses it after the start deadline, with a reason that says so', async () => {
    start({ startMs: 120_000 })
    const id = await submit()
    await until(() => expect(workers).toHaveLength(1))
    await sleepThroughLease()
    await pass(35_000)
    expect(workerAt(0).kill).not.toHaveBeenCalled()
    expect(await jobOf(id)).toMatchObject({ status: 'running', attempt: 1, losses: 0 })
    await until(async () => expect((await jobOf(id)).leaseExpiresAtMs).toBeGreaterThan(Date.now()))
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await until(() => expect(workers).toHaveLength(attempt))
      await pass(125_000)
      await until(() => expect(workerAt(attempt - 1).kill).toHaveBeenCalled())
    }
    await until(async () => expect((await jobOf(id)).status).toBe('failed'))
    expect((await jobOf(id)).errorMessage).toBe(
      'the training job lost its worker 3 times in a row without progress, at last because its worker did not report within 2 minutes of its start',
    )
  })
})

describe('a worker of another machine', () => {
  const elsewhere = {
    ...{ ...TEST_WORKER, id: 'w', name: 'w', trainers: ['onnx'], memoryBytes: null },
    tenant: { entity: 'local', project: null },
  }
  const ask = () =>
    dispatcher.claim(elsewhere, { waitMs: 60_000, signal: new AbortController().signal, left: null, isLeaving: false })

  it('is known as long as it trains, though it asks for nothing, and forgotten when it has ended', async () => {
    start({ startMs: 600_000 }, 0)
    const id = await submit()
    expect(await ask()).toMatchObject({ id })
    await pass(150_000)
    expect(dispatcher.remoteWorkers()).toMatchObject([{ name: 'w', isBusy: true }])
    expect(dispatcher.whyUnclaimable(await jobOf(id), null)).toBeNull()
    expect(await dispatcher.workersEnded('w', 'its machine is gone')).toBe(true)
    await until(async () => expect((await jobOf(id)).status).toBe('queued'))
    expect(dispatcher.remoteWorkers()).toEqual([])
  })

  it('is told from one that was given nothing, and refuses what it has not the memory for', async () => {
    start({ startMs: 600_000 }, 0)
    const waiting = dispatcher.claim(
      { ...elsewhere, memoryBytes: 1e9 },
      { waitMs: 60_000, signal: new AbortController().signal, left: null, isLeaving: false },
    )
    await until(() => expect(dispatcher.remoteWorkers()).toHaveLength(1))
    expect(dispatcher.isUnclaimable({ trainer: null, weightBytes: 2e9 })).toBe(true)
    expect(dispatcher.isUnclaimable({ trainer: 'torch', weightBytes: null })).toBe(true)
    expect(dispatcher.isUnclaimable({ trainer: 'onnx', weightBytes: 5e8 })).toBe(false)
    expect(await dispatcher.workersEnded('w', 'it ended')).toBe(false)
    await dispatcher.stop()
    expect(await waiting).toBeNull()
  })
})

it('says which base model a job waits for that no server has', async () => {
  let hasOthers = false
  start({}, 1, undefined, { peers: { ...alone, count: () => (hasOthers ? 2 : 1) }, baseModels: () => ['another'] })
  const job = await jobOf(await submit())
  expect(dispatcher.whyUnclaimable(job, 'base')).toBe(
    'this server does not have its base model base: start it with --base-model',
  )
  expect(dispatcher.whyUnclaimable(job, 'another')).toBeNull()
  hasOthers = true
  expect(dispatcher.whyUnclaimable(job, 'base')).toBeNull()
})

describe('a machine that slept', () => {
  it('finds its jobs running: a lease that is over by the clock alone is renewed', async () => {
    start()
    const id = await submit()
    await until(() => expect(workers).toHaveLength(1))
    dispatcher.noteContact({ jobId: id, attempt: 1 }, 'moved')
    for (let i = 0; i < 4; i += 1) {
      await sleepThroughLease()
      await pass(SWEEP_MS)
    }
    expect(workerAt(0).kill).not.toHaveBeenCalled()
    expect(await jobOf(id)).toMatchObject({ status: 'running', attempt: 1, losses: 0 })
  })
})

describe('losses', () => {
  it('are not counted for stops of the server itself', async () => {
    start()
    const id = await submit()
    for (let i = 0; i < 4; i += 1) {
      await until(() => expect(workers.length).toBeGreaterThan(i))
      await dispatcher.stop()
      await recoverInterrupted(fixture.db, systemIds, 60_000)
      expect(await jobOf(id)).toMatchObject({ status: 'queued', losses: 0 })
      start()
    }
  })

  it('make the next attempt wait, longer each time, and nothing of the model overtakes it', async () => {
    start({ backoffMs: 3_600_000 }, 2)
    const id = await submit()
    const next = await submit()
    await until(() => expect(workers).toHaveLength(1))
    workerAt(0).end('the worker exited with code 1')
    await until(async () => expect((await jobOf(id)).status).toBe('queued'))
    await pass(5000)
    expect(workers).toHaveLength(1)
    const due = async () => {
      const row = await fixture.db.selectFrom('training_jobs').select('retry_at_ms').where('id', '=', id).execute()
      return (row[0]?.retry_at_ms ?? 0) - Date.now()
    }
    expect(await due()).toBeGreaterThan(3_500_000)
    await fixture.db.updateTable('training_jobs').set({ retry_at_ms: 1 }).where('id', '=', id).execute()
    dispatcher.wake()
    await until(() => expect(workers).toHaveLength(2))
    expect(workerAt(1)).toMatchObject({ id, attempt: 2 })
    workerAt(1).end('the worker exited with code 1')
    await until(async () => expect((await jobOf(id)).status).toBe('queued'))
    expect(await due()).toBeGreaterThan(4 * 3_600_000)
    expect((await jobOf(next)).status).toBe('queued')
  })
})

describe('several workers', () => {
  const step = (id: string) =>
    fixture.db.updateTable('training_jobs').set({ gradient_step_count: 1 }).where('id', '=', id).execute()

  it('start one after the other: the next when those before it have shown with a step what they hold, and it fits beside', async () => {
    let isRoom = false
    const asked = vi.fn(() => isRoom)
    start({}, 3, asked)
    const ids = [await submit()]
    for (const name of ['b', 'c']) ids.push(await submit(await fixture.addModel(name)))
    const [first = '', second = ''] = ids
    await until(() => expect(workers).toHaveLength(1))
    await pass(5000)
    // alone it starts without a question; nothing is known of what it will hold
    expect(asked).not.toHaveBeenCalled()
    expect(workers).toHaveLength(1)
    await step(first)
    await pass(5000)
    await until(() => expect(asked).toHaveBeenCalled())
    expect(workers).toHaveLength(1)
    isRoom = true
    await pass(1000)
    await until(() => expect(workers).toHaveLength(2))
    await pass(5000)
    expect(workers).toHaveLength(2)
    await step(second)
    await pass(1000)
    await until(() => expect(workers).toHaveLength(3))
    expect(workers.map(({ id }) => id)).toEqual(ids)
  })

  it('do not wait for room when none runs', async () => {
    start({}, 2, () => false)
    const first = await submit()
    const second = await submit(await fixture.addModel('b'))
    await until(() => expect(workers).toHaveLength(1))
    await step(first)
    await pass(2000)
    expect(workers).toHaveLength(1)
    workerAt(0).end('the worker exited with code 0')
    await until(() => expect(workers.length).toBeGreaterThan(1))
    expect([first, second]).toContain(workerAt(1).id)
  })
})
