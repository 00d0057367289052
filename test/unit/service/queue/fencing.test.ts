/**
 * Fencing and outcomes: a stale attempt changes nothing, and a job's end is all or nothing.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { appendEvents } from '#service/queue/event-log.js'
import { type AttemptClaim, heartbeat, withLease } from '#service/queue/lease.js'
import { completeJob, failAttempt } from '#service/queue/outcome.js'
import { claimNextJob, createJob } from '#service/queue/queue.js'
import { expireLeases, releaseAttempt } from '#service/queue/recovery.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listEvents } from '#service/storage/events.js'
import { findModel } from '#service/storage/models.js'
import { findJob } from '#service/storage/training-jobs.js'
import { createJobFixture, type JobFixture, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'

const FILES = {
  'adapter_config.json': { sha256: 'c'.repeat(64), sizeBytes: 3 },
  'adapter_model.safetensors': { sha256: 'd'.repeat(64), sizeBytes: 4 },
}
const MANIFEST = { sha256: 'f'.repeat(64), sizeBytes: 5 }
let fixture: JobFixture
let claim: AttemptClaim

async function claimAgain(leaseMs = 60_000): Promise<AttemptClaim> {
  const claimed = await claimNextJob(fixture.db, systemIds, { ...TEST_LEASE, leaseMs })
  if (claimed === null) throw new Error('nothing to claim')
  return { jobId: claimed.job.id, attempt: claimed.job.attempt, token: claimed.token }
}

async function upload(at: AttemptClaim): Promise<void> {
  for (const [name, file] of Object.entries(FILES)) {
    await fixture.db
      .insertInto('job_files')
      .values({ job_id: at.jobId, attempt: at.attempt, name, sha256: file.sha256, size_bytes: file.sizeBytes })
      .execute()
  }
}

const complete = (at: AttemptClaim) =>
  completeJob(fixture.db, systemIds, at, {
    files: FILES,
    manifest: MANIFEST,
    metrics: { 'loss/train': 1 },
    report: null,
  })
const lose = (at: AttemptClaim) =>
  releaseAttempt(fixture.db, systemIds, {
    jobId: at.jobId,
    attempt: at.attempt,
    reason: 'test',
    isOrderly: false,
    backoffMs: 0,
  })
const eventTypes = async () =>
  (await listEvents(fixture.db, claim.jobId, { limit: 100 })).items.map((event) => event.type)

beforeEach(async () => {
  fixture = await createJobFixture()
  await createJob(fixture.db, fixture.newJob(), ONCE)
  claim = await claimAgain()
})
afterEach(() => fixture.close())

describe('completion', () => {
  it('publishes checkpoint, step, event and status together, and repeats harmlessly', async () => {
    await upload(claim)
    expect(await complete(claim)).toBe(1)
    expect(await complete(claim)).toBe(1)
    expect((await findModel(fixture.db, fixture.modelId))?.step).toBe(1)
    expect(await findCheckpoint(fixture.db, fixture.modelId, 'latest')).toMatchObject({
      step: 1,
      kind: 'rl',
      metrics: { 'loss/train': 1 },
    })
    expect((await findJob(fixture.db, claim.jobId))?.status).toBe('completed')
    expect(await eventTypes()).toEqual(['training_ended'])
  })

  it('changes nothing when a file is missing or differs', async () => {
    await expect(complete(claim)).rejects.toMatchObject({ code: 'checkpoint_incomplete' })
    await upload(claim)
    const other = { ...FILES, 'adapter_model.safetensors': { sha256: 'e'.repeat(64), sizeBytes: 4 } }
    await expect(
      completeJob(fixture.db, systemIds, claim, { files: other, manifest: MANIFEST, metrics: {}, report: null }),
    ).rejects.toMatchObject({
      code: 'checkpoint_incomplete',
    })
    expect(await findCheckpoint(fixture.db, fixture.modelId, 'latest')).toBeNull()
    expect((await findJob(fixture.db, claim.jobId))?.status).toBe('running')
    expect(await eventTypes()).toEqual([])
  })

  it('rolls back as a whole when the last write of the transaction fails', async () => {
    await upload(claim)
    const at = { id: systemIds.uuid(), job_id: claim.jobId, position: 0, type: 'training_failed', data: '{}' }
    await fixture.db.insertInto('events').values(at).execute()
    await expect(complete(claim)).rejects.toThrow(/unique/i)
    expect(await findCheckpoint(fixture.db, fixture.modelId, 'latest')).toBeNull()
    expect((await findModel(fixture.db, fixture.modelId))?.step).toBe(0)
    expect((await findJob(fixture.db, claim.jobId))?.status).toBe('running')
  })
})

describe('fencing', () => {
  it('refuses every write of an attempt whose job was given away', async () => {
    await upload(claim)
    await lose(claim)
    const next = await claimAgain()
    const failure = { code: 'x', message: 'x', isCancelled: false }
    for (const write of [
      () => heartbeat(fixture.db, claim, 1000),
      () => complete(claim),
      () => failAttempt(fixture.db, systemIds, claim, failure),
      () => withLease(fixture.db, claim, async () => undefined),
    ]) {
      await expect(write()).rejects.toMatchObject({ code: 'stale_attempt', category: 'conflict' })
    }
    expect(await heartbeat(fixture.db, next, 1000)).toEqual({ isCancelRequested: false, isStopRequested: false })
    expect(await eventTypes()).toEqual([])
  })

  const overdue = () => fixture.db.updateTable('training_jobs').set({ lease_expires_at_ms: 1 }).execute()
  const NOBODY = { alive: [], leaseMs: 60_000 }

  it('takes a job whose lease is over, and refuses its attempt from then on', async () => {
    await overdue()
    expect(await expireLeases(fixture.db, systemIds, NOBODY)).toEqual({ lost: [claim.jobId], renewed: [] })
    await expect(heartbeat(fixture.db, claim, 1000)).rejects.toMatchObject({ code: 'stale_attempt' })
    expect(await findJob(fixture.db, claim.jobId)).toMatchObject({ status: 'queued', losses: 1 })
  })

  it('renews a lease that ran out while the machine slept: by the next request, or for a worker that lives', async () => {
    await overdue()
    expect(await heartbeat(fixture.db, claim, 60_000)).toEqual({ isCancelRequested: false, isStopRequested: false })
    expect(await expireLeases(fixture.db, systemIds, NOBODY)).toEqual({ lost: [], renewed: [] })
    await overdue()
    const local = { alive: [claim], leaseMs: 60_000 }
    expect(await expireLeases(fixture.db, systemIds, local)).toEqual({ lost: [], renewed: [claim.jobId] })
    expect(await expireLeases(fixture.db, systemIds, NOBODY)).toEqual({ lost: [], renewed: [] })
    expect(await heartbeat(fixture.db, claim, 60_000)).toEqual({ isCancelRequested: false, isStopRequested: false })
  })

  it('refuses a wrong token and an unknown job', async () => {
    await expect(heartbeat(fixture.db, { ...claim, token: 'no' }, 1000)).rejects.toMatchObject({
      code: 'invalid_api_key',
    })
    await expect(heartbeat(fixture.db, { ...claim, jobId: 'no' }, 1000)).rejects.toMatchObject({
      code: 'training_job_not_found',
    })
  })

  it('does not count an orderly stop against the job', async () => {
    const at = { jobId: claim.jobId, attempt: claim.attempt, reason: 'shutdown', isOrderly: true }
    await releaseAttempt(fixture.db, systemIds, at)
    expect(await findJob(fixture.db, claim.jobId)).toMatchObject({ status: 'queued', losses: 0 })
  })
})

describe('events', () => {
  const step = (loss: number) => ({ type: 'gradient_step' as const, data: { loss } })
  const append = (offset: number, ...losses: number[]) =>
    appendEvents(fixture.db, systemIds, claim.jobId, { offset, events: losses.map(step) })

  it('are stored once however often a post is repeated, also by a second attempt', async () => {
    expect(await append(0, 1, 2)).toBe(2)
    expect(await append(0, 1, 2)).toBe(0)
    expect(await append(1, 2, 3)).toBe(1)
    await lose(claim)
    await claimAgain()
    expect(await append(0, 1, 2, 3, 4)).toBe(1)
    const { items } = await listEvents(fixture.db, claim.jobId, { limit: 10 })
    expect(items.map((event) => event.data)).toEqual([{ loss: 1 }, { loss: 2 }, { loss: 3 }, { loss: 4 }])
  })

  it('refuse a gap', async () => {
    await expect(append(1, 1)).rejects.toMatchObject({ code: 'event_gap' })
  })

  it('end a job whatever its reason quotes', async () => {
    await failAttempt(fixture.db, systemIds, claim, { code: 'x', message: 'role "a\0"', isCancelled: false })
    expect(await findJob(fixture.db, claim.jobId)).toMatchObject({ status: 'failed', errorMessage: 'role "a\ufffd"' })
  })

  it('have exactly one terminal event by the database itself', async () => {
    await failAttempt(fixture.db, systemIds, claim, { code: 'x', message: 'broken', isCancelled: false })
    expect(await eventTypes()).toEqual(['training_failed'])
    const second = { id: systemIds.uuid(), job_id: claim.jobId, position: 9, type: 'training_ended', data: '{}' }
    await expect(fixture.db.insertInto('events').values(second).execute()).rejects.toThrow(/unique/i)
  })
})
