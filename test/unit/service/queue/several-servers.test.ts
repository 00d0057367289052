/**
 * What a server may take where others work with the same rows: its own of before, what leases or rows say is nobody's, and
 * what it can serve.
 */
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { systemIds } from '#base/util/ids.js'
import { createServerGroup } from '#plugins/servers/server-group.js'
import { forgetServers, renewServer } from '#plugins/servers/storage/servers.js'
import { heartbeat } from '#service/queue/lease.js'
import { createLeaseWatch } from '#service/queue/lease-watch.js'
import { alone } from '#service/queue/peers.js'
import { claimNextJob, createJob, localOwner, remoteOwner } from '#service/queue/queue.js'
import { expireLeases, recoverInterrupted, releaseStalled } from '#service/queue/recovery.js'
import { createJobSignals } from '#service/queue/signals.js'
import { findJob } from '#service/storage/training-jobs.js'
import { listServers } from '#service/storage/upkeep/servers.js'
import { createJobFixture, type JobFixture, ONCE, TEST_LEASE } from '../../../support/service/job-fixture.js'
import { UNHEARD } from '../../../support/service/unheard.js'

const LEASE_MS = 60_000
let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

/** A job that runs. */
async function running(owner: string, name: string) {
  const { db } = fixture
  await createJob(db, fixture.newJob(await fixture.addModel(name)), ONCE)
  const claimed = await claimNextJob(db, systemIds, { ...TEST_LEASE, owner, leaseMs: LEASE_MS })
  if (claimed === null) throw new Error('nothing to claim')
  return { jobId: claimed.job.id, attempt: claimed.job.attempt, token: claimed.token }
}

const statusOf = async (id: string): Promise<unknown> => (await findJob(fixture.db, id))?.status
const leaseOf = async (id: string): Promise<number> => (await findJob(fixture.db, id))?.leaseExpiresAtMs ?? 0

describe('a start', () => {
  test('releases what its own workers had, and nothing of the others', async () => {
    const [own, other] = [await running(localOwner('a'), 'one'), await running(localOwner('b'), 'two')]
    const remote = await running(remoteOwner('w'), 'three')
    const leaseMs = await leaseOf(remote.jobId)
    const beside = { earlierId: 'a', isFirst: false }
    expect(await recoverInterrupted(fixture.db, systemIds, 2 * LEASE_MS, beside)).toEqual([own.jobId])
    expect([await statusOf(own.jobId), await statusOf(other.jobId)]).toEqual(['queued', 'running'])
    expect(await leaseOf(remote.jobId)).toBe(leaseMs)
  })

  test('of a server that nobody knew releases nothing; the first of all renews leases of workers elsewhere', async () => {
    const other = await running(localOwner('b'), 'one')
    const remote = await running(remoteOwner('w'), 'two')
    const leaseMs = await leaseOf(remote.jobId)
    const beside = { earlierId: null, isFirst: true }
    expect(await recoverInterrupted(fixture.db, systemIds, 2 * LEASE_MS, beside)).toEqual([])
    expect(await statusOf(other.jobId)).toBe('running')
    expect(await leaseOf(remote.jobId)).toBeGreaterThan(leaseMs)
  })
})

test('a lease that is over ends a job of a server that is gone, which counts no loss, and none of one that lives', async () => {
  const { db } = fixture
  await renewServer(db, { id: 'b', url: null, version: '0.1.0' }, LEASE_MS)
  const [gone, living] = [await running(localOwner('a'), 'one'), await running(localOwner('b'), 'two')]
  const own = await running(localOwner('c'), 'three')
  await sql`update training_jobs set lease_expires_at_ms = 0 where status = 'running'`.execute(db)
  const { lost } = await expireLeases(db, systemIds, { alive: [], leaseMs: LEASE_MS, serverId: 'c' })
  expect([...lost].sort()).toEqual([gone.jobId, own.jobId].sort())
  const losses = [gone, own].map(async ({ jobId }) => (await findJob(db, jobId))?.losses)
  expect(await Promise.all(losses)).toEqual([0, 1])
  expect(await statusOf(living.jobId)).toBe('running')
})

test('while the database was away nobody could renew: until others had time to, only what is its own is lost', async () => {
  const { db } = fixture
  const [other, own] = [await running(localOwner('a'), 'one'), await running(localOwner('c'), 'two')]
  const remote = await running(remoteOwner('w'), 'three')
  await sql`update training_jobs set lease_expires_at_ms = 0 where status = 'running'`.execute(db)
  const timing = { leaseMs: LEASE_MS, stallMs: LEASE_MS, backoffMs: 0, sweepMs: LEASE_MS }
  const peers = { ...alone, id: 'c', isShared: true, leaseMs: 2 * LEASE_MS }
  const watch = createLeaseWatch({ db, ids: systemIds, owner: localOwner('c'), timing, peers })
  watch.lost()
  watch.tick()
  watch.tick()
  expect((await watch.look([])).lost).toEqual([own.jobId])
  watch.tick()
  expect([...(await watch.look([])).lost].sort()).toEqual([other.jobId, remote.jobId].sort())
})

test('a worker elsewhere that answers and does not move on is seen by its row, one that moves on is not', async () => {
  const { db } = fixture
  const stuck = await running(remoteOwner('w'), 'one')
  const moving = await running(remoteOwner('v'), 'two')
  const own = await running(localOwner('a'), 'three')
  const past = async () =>
    sql`update training_jobs set progress_at_ms = progress_at_ms - 10000 where status = 'running'`.execute(db)
  await heartbeat(db, stuck, LEASE_MS, 7)
  await past()
  await heartbeat(db, stuck, LEASE_MS, 7)
  await heartbeat(db, moving, LEASE_MS, 1)
  expect(await releaseStalled(db, systemIds, { stallMs: 5000, backoffMs: 0 })).toEqual([stuck.jobId])
  expect([await statusOf(moving.jobId), await statusOf(own.jobId)]).toEqual(['running', 'running'])
})

test('jobs of base models that a server has not are left to others', async () => {
  const { db } = fixture
  await createJob(db, fixture.newJob(), ONCE)
  expect(await claimNextJob(db, systemIds, { ...TEST_LEASE, baseModels: [] })).toBeNull()
  expect(await claimNextJob(db, systemIds, { ...TEST_LEASE, baseModels: ['another'] })).toBeNull()
  expect(await claimNextJob(db, systemIds, { ...TEST_LEASE, baseModels: ['another', 'base'] })).not.toBeNull()
})

describe('servers', () => {
  const facts = (id: string, version = '0.1.0') => ({ id, url: null, version })
  const logger = createLogger({ level: 'silent' })

  test('live as long as their lease, and are forgotten a day later', async () => {
    const { db } = fixture
    await renewServer(db, facts('a'), LEASE_MS)
    await renewServer(db, facts('b'), 0)
    expect((await listServers(db)).map(({ id }) => id)).toEqual(['a'])
    await renewServer(db, facts('b'), LEASE_MS)
    expect((await listServers(db)).length).toBe(2)
    await renewServer(db, facts('b'), -90_000_000)
    await forgetServers(db)
    expect(await db.selectFrom('servers').select('id').execute()).toEqual([{ id: 'a' }])
  })

  test('of another minor version are not joined, of another patch they are', async () => {
    const { db } = fixture
    await renewServer(db, facts('a', '0.1.3'), LEASE_MS)
    const newer = createServerGroup({ db, shared: UNHEARD, facts: facts('b', '0.2.0'), logger })
    await expect(newer.start()).rejects.toMatchObject({ code: 'database_in_use' })
    expect((await listServers(db)).map(({ id }) => id)).toEqual(['a'])
    const same = createServerGroup({ db, shared: UNHEARD, facts: facts('c', '0.1.9'), logger })
    await same.start()
    expect(same.count()).toBe(2)
    await same.stop()
    expect((await listServers(db)).map(({ id }) => id)).toEqual(['a'])
  })

  test('hear of jobs what the others say, not what they said themselves; a lost connection wakes all who wait', async () => {
    const group = createServerGroup({ db: fixture.db, shared: UNHEARD, facts: facts('a'), logger })
    const noticed: string[] = []
    const signals = createJobSignals((id) => noticed.push(id), group)
    const { signal } = new AbortController()
    const waiting = signals.wait('one', 1e6, signal)
    group.receive('a\njob one')
    expect(noticed).toEqual([])
    group.receive('b\nadapter 12\njob one\njob two')
    await waiting
    expect(noticed).toEqual(['one', 'two'])
    const missed = signals.wait('three', 1e6, signal)
    group.receive(null)
    await missed
  })
})
