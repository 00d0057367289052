/**
 * A wall clock that is set: what waits for a time in a row waits as long as it was to, and no longer.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { webhookTables } from '#plugins/webhooks/storage/tables.js'
import { shortenWaits as shortenDeliveries } from '#plugins/webhooks/storage/waits.js'
import {
  type DeliveryRecord,
  insertDelivery,
  insertWebhook,
  listDue,
  listDueWebhooks,
  setAttempt,
} from '#plugins/webhooks/storage/webhooks.js'
import { createClockWatch } from '#service/queue/clock-watch.js'
import { claimNextJob, createJob } from '#service/queue/queue.js'
import { releaseAttempt } from '#service/queue/recovery.js'
import { insertOneTime, takeOneTime } from '#service/storage/access/one-time.js'
import { createApiKey, findApiKey } from '#service/storage/api-keys.js'
import { listNewestIds, moveWaits, shortenWaits } from '#service/storage/upkeep/clock-shift.js'
import { createJobFixture, type JobFixture, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'

const DAY_MS = 24 * 3_600_000
const LEASE = { ...TEST_LEASE, leaseMs: 60_000 }
let fixture: JobFixture

beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

const claim = () => claimNextJob(fixture.db, systemIds, LEASE)

/** A job whose worker was lost, to be run again at once but for `pauseMs`. */
async function losesWorker(pauseMs: number, modelId?: string): Promise<string> {
  const { job } = await createJob(fixture.db, fixture.newJob(modelId), ONCE)
  await claim()
  const lost = { jobId: job.id, attempt: 1, reason: 'it was killed', isOrderly: false, backoffMs: pauseMs }
  await releaseAttempt(fixture.db, systemIds, lost)
  return job.id
}

/** A delivery that failed once and waits for `retryMs`. */
async function failsToDeliver(retryMs: number): Promise<string> {
  const [id, webhookId] = [systemIds.uuid(), systemIds.uuid()]
  const webhook = { id: webhookId, entity: 'local', project: null, url: 'https://example.com', secret: 's', events: [] }
  await insertWebhook(fixture.db, webhook)
  await insertDelivery(fixture.db, { id, webhookId, eventId: 'e', eventType: 'training_job.started', body: '{}' })
  await setAttempt(fixture.db, { id, attempts: 0 }, { isDelivered: false, status: 500, error: null, retryMs })
  return id
}

async function dueOf(db: JobFixture['db']): Promise<readonly DeliveryRecord[]> {
  const webhooks = await listDueWebhooks(db)
  return (await Promise.all(webhooks.map(({ id }) => listDue(db, id, 10)))).flat()
}

/** What the rows look like to a clock that was set back: their times are later than they were. */
async function setBack(byMs: number): Promise<void> {
  const { db } = fixture
  // waits of a millisecond are over
  await sleep(5)
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      created_at_ms: e('created_at_ms', '+', byMs),
      heartbeat_at_ms: e('heartbeat_at_ms', '+', byMs),
      retry_at_ms: e('retry_at_ms', '+', byMs),
    }))
    .execute()
  await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set((e) => ({
      created_at_ms: e('created_at_ms', '+', byMs),
      next_attempt_at_ms: e('next_attempt_at_ms', '+', byMs),
    }))
    .execute()
  await db
    .updateTable('one_time_secrets')
    .set((e) => ({ expires_at_ms: e('expires_at_ms', '+', byMs) }))
    .execute()
}

describe('a clock set back', () => {
  it('while the server runs makes no wait longer, nor ends one', async () => {
    await losesWorker(3 * DAY_MS, await fixture.addModel('other'))
    const job = await losesWorker(1)
    const delivery = await failsToDeliver(1)
    await setBack(DAY_MS)
    expect([await claim(), await dueOf(fixture.db)]).toEqual([null, []])
    await moveWaits(fixture.db, DAY_MS)
    expect((await claim())?.job.id).toBe(job)
    expect((await dueOf(fixture.db)).map(({ id }) => id)).toEqual([delivery])
    expect(await claim()).toBeNull()
  })

  it('while the server runs leaves a code no longer than it was to have', async () => {
    const { db } = fixture
    const key = await findApiKey(db, await createApiKey(db, systemIds, 'local'))
    const right = { scope: 'read', sessionId: null, usageProject: null, address: null } as const
    const codeFor = (lifeMs: number) =>
      insertOneTime({ db, ids: systemIds }, 'sign-in', { right: { ...right, keyId: key?.id ?? '' }, lifeMs })
    const [living, over] = [await codeFor(DAY_MS), await codeFor(1)]
    await setBack(DAY_MS)
    await moveWaits(db, DAY_MS)
    expect(await takeOneTime(db, 'sign-in', over.secret)).toBeNull()
    expect(await takeOneTime(db, 'sign-in', living.secret)).toMatchObject({ keyId: key?.id, entity: 'local' })
  })

  it('between two runs of the server ends waits that began in the future', async () => {
    const job = await losesWorker(1000)
    const delivery = await failsToDeliver(1000)
    await setBack(DAY_MS)
    expect([await claim(), await dueOf(fixture.db)]).toEqual([null, []])
    await shortenWaits(fixture.db)
    await shortenDeliveries(fixture.db, 1000)
    expect((await claim())?.job.id).toBe(job)
    expect((await dueOf(fixture.db)).map(({ id }) => id)).toEqual([delivery])
  })
})

describe('at start', () => {
  it('ends no wait of a clock that runs on', async () => {
    await losesWorker(DAY_MS)
    await failsToDeliver(DAY_MS)
    await shortenWaits(fixture.db)
    await shortenDeliveries(fixture.db, 2 * DAY_MS)
    expect([await claim(), await dueOf(fixture.db)]).toEqual([null, []])
  })

  it('knows the newest id of each table', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    expect(await listNewestIds(fixture.db)).toEqual(expect.arrayContaining([fixture.modelId, job.id]))
  })
})

describe('the watch', () => {
  it('takes no pause of the process for a clock that was set, wherever in a look it comes', async () => {
    let [elapsedMs, readings, pauseAt] = [0, 0, -1]
    const read = (): number => {
      if (readings++ === pauseAt) elapsedMs += 5000
      return elapsedMs
    }
    const clock = { nowMs: () => DAY_MS * 1000 + read(), monotonicMs: read }
    const watch = createClockWatch(fixture.db, clock, pino({ level: 'silent' }))
    for (let at = 0; at < 6; at++) {
      pauseAt = readings + at
      expect(await watch.look()).toBe(0)
      pauseAt = -1
      expect(await watch.look()).toBe(0)
    }
  })

  it('sees jumps and no drift, and moves waits only for those back', async () => {
    const job = await losesWorker(1)
    await setBack(DAY_MS)
    let [nowMs, monotonicMs] = [DAY_MS * 1000, 0]
    const clock = { nowMs: () => nowMs, monotonicMs: () => monotonicMs }
    const watch = createClockWatch(fixture.db, clock, pino({ level: 'silent' }))
    const pass = async (wallMs: number, realMs: number) => {
      nowMs += wallMs
      monotonicMs += realMs
      return watch.look()
    }
    expect([await pass(1000, 1000), await pass(1400, 1000), await pass(500, 1000)]).toEqual([0, 0, 0])
    expect(await pass(1000 + DAY_MS, 1000)).toBe(DAY_MS)
    expect(await claim()).toBeNull()
    expect(await pass(1000 - DAY_MS, 1000)).toBe(-DAY_MS)
    expect((await claim())?.job.id).toBe(job)
    expect(await pass(1000, 1000)).toBe(0)
  })
})
