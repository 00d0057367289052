/**
 * The queue: order, one running job per model, and creates that arrive twice.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { failAttempt, requestCancel } from '#service/queue/outcome.js'
import { claimNextJob, createJob } from '#service/queue/queue.js'
import { recoverInterrupted, releaseAttempt } from '#service/queue/recovery.js'
import { listEvents } from '#service/storage/events.js'
import { setJobTrainer } from '#service/storage/jobs/states.js'
import { deleteModelRow } from '#service/storage/models.js'
import { findJob } from '#service/storage/training-jobs.js'
import { createJobFixture, type JobFixture, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'

const LEASE = { ...TEST_LEASE, leaseMs: 60_000 }
let fixture: JobFixture

beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

const claim = () => claimNextJob(fixture.db, systemIds, LEASE)

describe('queue', () => {
  it('hands out jobs of one model in order, one at a time', async () => {
    const first = await createJob(fixture.db, fixture.newJob(), ONCE)
    const second = await createJob(fixture.db, fixture.newJob(), ONCE)
    expect((await claim())?.job.id).toBe(first.job.id)
    expect(await claim()).toBeNull()
    await recoverInterrupted(fixture.db, systemIds, 60_000)
    expect((await claim())?.job.id).toBe(first.job.id)
    await requestCancel(fixture.db, systemIds, second.job.id)
    expect(await claim()).toBeNull()
  })

  it('runs jobs of different models side by side', async () => {
    const other = await fixture.addModel('other')
    const first = await createJob(fixture.db, fixture.newJob(), ONCE)
    await createJob(fixture.db, fixture.newJob(), ONCE)
    const third = await createJob(fixture.db, fixture.newJob(other), ONCE)
    expect([(await claim())?.job.id, (await claim())?.job.id, await claim()]).toEqual([
      first.job.id,
      third.job.id,
      null,
    ])
  })

  it('gives a job to those alone that can go on with it: its trainer, and memory for its base model', async () => {
    const { db } = fixture
    const { job } = await createJob(db, { ...fixture.newJob(), weightBytes: 4e9 }, ONCE)
    await setJobTrainer(db, job.id, 'torch')
    expect(await claim()).toBeNull()
    const torch = { ...LEASE, trainers: ['onnx', 'torch'] }
    expect(await claimNextJob(db, systemIds, { ...torch, memoryBytes: 3.9e9 })).toBeNull()
    expect((await claimNextJob(db, systemIds, { ...torch, memoryBytes: 4e9 }))?.job.id).toBe(job.id)
  })

  it('raises the attempt and starts a new secret with every claim', async () => {
    await createJob(fixture.db, fixture.newJob(), ONCE)
    const first = await claim()
    await recoverInterrupted(fixture.db, systemIds, 60_000)
    const second = await claim()
    expect([first?.job.attempt, second?.job.attempt]).toEqual([1, 2])
    expect(second?.token).not.toBe(first?.token)
  })

  it('refuses a job for a model that was deleted meanwhile', async () => {
    await deleteModelRow(fixture.db, fixture.modelId)
    await expect(createJob(fixture.db, fixture.newJob(), ONCE)).rejects.toMatchObject({ code: 'model_not_found' })
  })

  it('ends a queued job at once when it is cancelled, with one event', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    expect((await requestCancel(fixture.db, systemIds, job.id)).status).toBe('cancelled')
    expect((await requestCancel(fixture.db, systemIds, job.id)).status).toBe('cancelled')
    const events = await listEvents(fixture.db, job.id, { limit: 10 })
    expect(events.items.map((event) => event.type)).toEqual(['training_failed'])
  })
})

describe('repeated creates', () => {
  it('make one job when a hundred arrive at once', async () => {
    const job = fixture.newJob()
    const created = await Promise.all(
      Array.from({ length: 100 }, () => createJob(fixture.db, { ...job, id: systemIds.uuid() }, ONCE)),
    )
    expect(new Set(created.map((result) => result.job.id)).size).toBe(1)
    expect(created.filter((result) => result.isNew)).toHaveLength(1)
  })

  it('make one job per Idempotency-Key, whatever the payload', async () => {
    const job = fixture.newJob()
    const send = (key: string) =>
      createJob(fixture.db, { ...job, id: systemIds.uuid() }, { ...ONCE, idempotencyKey: key })
    const [a, b, c] = [await send('x'), await send('x'), await send('y')]
    expect(b.job.id).toBe(a.job.id)
    expect(c.job.id).not.toBe(a.job.id)
    const other = { ...fixture.newJob(), id: systemIds.uuid() }
    await expect(createJob(fixture.db, other, { ...ONCE, idempotencyKey: 'x' })).rejects.toMatchObject({
      code: 'idempotency_key_reused',
    })
  })

  it('make a second job once the first has ended and the window is over, but not for a marked retry', async () => {
    const job = fixture.newJob()
    const first = await createJob(fixture.db, job, ONCE)
    await requestCancel(fixture.db, systemIds, first.job.id)
    await fixture.db
      .updateTable('training_jobs')
      .set((e) => ({ created_at_ms: e('created_at_ms', '-', 60_000) }))
      .execute()
    const retry = await createJob(fixture.db, { ...job, id: systemIds.uuid() }, { ...ONCE, isRetry: true })
    expect(retry.job.id).toBe(first.job.id)
    const again = await createJob(fixture.db, { ...job, id: systemIds.uuid() }, ONCE)
    expect(again.isNew).toBe(true)
  })

  it('answer with the finished job for the same artifact, but not for a failed one', async () => {
    const job = { ...fixture.newJob(), kind: 'sft' as const, sourceUrl: 'wandb-artifact:///e/p/a:v0' }
    const first = await createJob(fixture.db, job, ONCE)
    const age = (status: string) =>
      fixture.db
        .updateTable('training_jobs')
        .set((e) => ({ created_at_ms: e('created_at_ms', '-', 3_600_000), status }))
        .execute()
    await age('completed')
    expect((await createJob(fixture.db, { ...job, id: systemIds.uuid() }, ONCE)).job.id).toBe(first.job.id)
    await age('failed')
    expect((await createJob(fixture.db, { ...job, id: systemIds.uuid() }, ONCE)).isNew).toBe(true)
  })
})

describe('a create repeated after its job failed', () => {
  async function fail(code: string): Promise<ReturnType<JobFixture['newJob']>> {
    const job = fixture.newJob()
    await createJob(fixture.db, job, ONCE)
    const claimed = await claim()
    if (claimed === null) throw new Error('nothing to claim')
    const failure = { code, message: 'it broke', isCancelled: false }
    await failAttempt(fixture.db, systemIds, { jobId: job.id, attempt: 1, token: claimed.token }, failure)
    return { ...job, id: systemIds.uuid() }
  }

  it('makes a new job at once: the checkpoint may have been put in order', async () => {
    const again = await fail('checkpoint_corrupt')
    expect(await createJob(fixture.db, again, ONCE)).toMatchObject({ isNew: true, job: { status: 'queued' } })
  })

  it('answers with the failed job to a marked retry that comes right after its end, and to none that comes later', async () => {
    const again = await fail('checkpoint_corrupt')
    const retry = { ...ONCE, isRetry: true }
    expect(await createJob(fixture.db, again, retry)).toMatchObject({ isNew: false, job: { status: 'failed' } })
    await fixture.db
      .updateTable('training_jobs')
      .set((e) => ({ ended_at_ms: e('ended_at_ms', '-', 60_000) }))
      .execute()
    expect(await createJob(fixture.db, again, retry)).toMatchObject({ isNew: true })
  })
})

describe('a create repeated after its job was cancelled', () => {
  it('makes a new job at once, but not for a marked retry', async () => {
    const job = fixture.newJob()
    const { job: first } = await createJob(fixture.db, job, ONCE)
    await requestCancel(fixture.db, systemIds, first.id)
    const again = { ...job, id: systemIds.uuid() }
    const retry = { ...ONCE, isRetry: true }
    expect(await createJob(fixture.db, again, retry)).toMatchObject({ isNew: false, job: { id: first.id } })
    expect(await createJob(fixture.db, again, ONCE)).toMatchObject({ isNew: true, job: { status: 'queued' } })
  })

  it('makes a new job also while a worker still ends the first', async () => {
    const job = fixture.newJob()
    await createJob(fixture.db, job, ONCE)
    await claim()
    await requestCancel(fixture.db, systemIds, job.id)
    expect((await findJob(fixture.db, job.id))?.status).toBe('running')
    const again = { ...job, id: systemIds.uuid() }
    expect(await createJob(fixture.db, again, ONCE)).toMatchObject({ isNew: true, job: { status: 'queued' } })
  })
})

describe('recovery', () => {
  it('runs a job again however often the server stopped under it', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    for (let i = 0; i < 5; i += 1) {
      expect((await claim())?.job.id).toBe(job.id)
      await recoverInterrupted(fixture.db, systemIds, 60_000)
    }
    expect(await findJob(fixture.db, job.id)).toMatchObject({ status: 'queued', losses: 0, attempt: 5 })
  })

  it('fails a job with one event after it has lost three workers', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await claim()
      const lost = { jobId: job.id, attempt, reason: 'the worker exited with code 1', isOrderly: false, backoffMs: 0 }
      await releaseAttempt(fixture.db, systemIds, lost)
    }
    expect(await claim()).toBeNull()
    expect(await findJob(fixture.db, job.id)).toMatchObject({ status: 'failed', errorCode: 'worker_lost', attempt: 3 })
    const events = await listEvents(fixture.db, job.id, { limit: 10 })
    expect(events.items.map((event) => event.type)).toEqual(['training_failed'])
  })

  it('ends a running job as cancelled if that was asked before its worker was lost', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    await claim()
    await requestCancel(fixture.db, systemIds, job.id)
    await recoverInterrupted(fixture.db, systemIds, 60_000)
    expect((await findJob(fixture.db, job.id))?.status).toBe('cancelled')
  })
})
