/**
 * Jobs and training sessions on the same workers: whose turn it is, who gives way to whom, and what becomes of work whose
 * worker is away.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { requestCancel } from '#service/queue/outcome.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import {
  BOX,
  createQueueFixture,
  pass,
  type QueueFixture,
  type QueueFixtureOptions,
  SWEEP_MS,
  settle,
} from '../../../support/service/queue-fixture.js'
import { until } from '../../../support/until.js'

const [ONE, TWO] = ['s:train:1', 's:train:2']
const NOTHING_LEFT = { left: { reason: 'it ended', isOrderly: true } }
let queue: QueueFixture

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(async () => {
  await queue.close()
  vi.useRealTimers()
})

async function start(options: QueueFixtureOptions): Promise<void> {
  queue = await createQueueFixture(options)
  queue.dispatcher.start()
}
const jobOf = async (id: string): Promise<JobRecord> => {
  const job = await findJob(queue.db, id)
  if (job === null) throw new Error('the job is gone')
  return job
}
const statusOf = async (id: string): Promise<string> => (await jobOf(id)).status

describe('on workers of this machine', () => {
  it('jobs and sessions take turns, a job first', async () => {
    queue = await createQueueFixture({ trainWorkers: 1 })
    for (const name of ['a', 'b']) await queue.submit(name)
    for (const id of [ONE, TWO]) await queue.send(id)
    queue.dispatcher.start()
    const kinds: string[] = []
    for (let i = 0; i < 4; i += 1) {
      const worker = await queue.started(i)
      kinds.push(worker.kind)
      if (worker.kind === 'job') await queue.db.deleteFrom('training_jobs').where('id', '=', worker.id).execute()
      worker.end('it ended')
    }
    expect(kinds).toEqual(['job', 'session', 'job', 'session'])
  })

  it('a session without requests gives way to a job after a second, and to nobody while none waits', async () => {
    await start({ trainWorkers: 1, timing: { sessionTurnMs: 1e9 } })
    await queue.send(ONE)
    const worker = await queue.started(0)
    const { order } = await queue.turn(worker)
    const next = queue.turn(worker, { order, metrics: {} })
    const turns = await queue.rests(worker)
    queue.clock.nowMs += 999 - turns.idleMs()
    await queue.submit('a')
    await pass(SWEEP_MS)
    expect(turns.isClosing(), 'within a second').toBe(false)
    queue.clock.nowMs += 1
    await pass(SWEEP_MS)
    await until(() => turns.isClosing(), 'it gives way')
    // its state is stored before it leaves
    expect(await next).toMatchObject({ type: 'save', order: 2 })
    expect(await queue.turn(worker, { order: 2, files: [] })).toEqual({ type: 'close' })
    worker.end('it ended')
    const job = await queue.started(1)
    expect(job).toMatchObject({ kind: 'job' })
    // a request may have come while it left
    await until(() => queue.sessions.stateOf(ONE) === 'waiting', 'it may have')
    await queue.db.deleteFrom('training_jobs').execute()
    job.end('it ended')
    await until(() => queue.sessions.stateOf(ONE) === 'resting', 'none has come')
    expect(queue.workers).toHaveLength(2)
  })

  it('a session without requests keeps its worker while nobody waits', async () => {
    await start({ trainWorkers: 1 })
    await queue.send(ONE)
    const worker = await queue.started(0)
    const { order } = await queue.turn(worker)
    const next = queue.turn(worker, { order, metrics: {} })
    const turns = await queue.rests(worker)
    queue.clock.nowMs += 60_000
    await pass(2 * SWEEP_MS)
    expect(turns.isClosing()).toBe(false)
    await queue.send(ONE)
    expect(await next).toMatchObject({ type: 'optim_step', order: 2 })
  })

  it('of several sessions without requests one gives way at a time, first the one that has had none for longest', async () => {
    await start({ trainWorkers: 2 })
    const orders: Promise<unknown>[] = []
    for (const [i, id] of [ONE, TWO].entries()) {
      await queue.send(id, 'save_weights')
      const worker = await queue.started(i)
      const { order } = await queue.turn(worker)
      const failed = { code: 'x', message: 'x', is_user_error: true }
      orders.push(queue.turn(worker, { order, error: failed }))
      await queue.rests(worker)
      queue.clock.nowMs += 1000
    }
    queue.clock.nowMs += 5000
    for (const name of ['a', 'b']) await queue.submit(name)
    await pass(4 * SWEEP_MS)
    expect(await orders[0]).toEqual({ type: 'close' })
    const [first, second] = queue.workers
    if (first === undefined || second === undefined) throw new Error('no workers')
    const other = queue.sessions.heldBy({ ...second, jobId: TWO }).turns
    expect(other.isClosing(), 'while the first is still leaving').toBe(false)
    first.end('it ended')
    expect(await queue.started(2)).toMatchObject({ kind: 'job' })
    await pass(SWEEP_MS)
    expect(await orders[1]).toEqual({ type: 'close' })
    second.end('it ended')
    expect(await queue.started(3)).toMatchObject({ kind: 'job' })
  })

  it('a cancelled job whose worker does not hear of it has it killed after a while, and not before', async () => {
    await start({ trainWorkers: 1, timing: { cancelGraceMs: 2000 } })
    const id = await queue.submit('a')
    const worker = await queue.started(0)
    await requestCancel(queue.db, systemIds, id)
    await pass(2000)
    expect(worker.kill).not.toHaveBeenCalled()
    await until(async () => {
      await pass(SWEEP_MS)
      return worker.kill.mock.calls.length > 0
    }, 'the kill')
    await until(async () => (await statusOf(id)) === 'cancelled', 'the end of the job')
  })

  it('a worker that stands still is fenced off before it is killed', async () => {
    await start({ trainWorkers: 1, timing: { startMs: 1000, backoffMs: 1e9 } })
    const id = await queue.submit('a')
    const worker = await queue.started(0)
    let status: Promise<string> | null = null
    worker.kill.mockImplementation(() => {
      status ??= statusOf(id)
      worker.end('it was killed')
    })
    await pass(2000)
    await until(() => status !== null, 'the kill')
    expect(await status).toBe('queued')
    expect((await jobOf(id)).losses).toBe(1)
  })
})

describe('on a worker of another machine', () => {
  it('jobs and sessions take turns, too', async () => {
    queue = await createQueueFixture({ trainWorkers: 0 })
    for (const name of ['a', 'b']) await queue.submit(name)
    for (const id of [ONE, TWO]) await queue.send(id)
    queue.dispatcher.start()
    const kinds: unknown[] = []
    for (let i = 0; i < 4; i += 1) {
      const claim = await queue.ask(BOX, NOTHING_LEFT)
      kinds.push(claim?.kind)
      if (claim?.kind === 'job') await queue.db.deleteFrom('training_jobs').where('id', '=', claim.id).execute()
    }
    expect(kinds).toEqual(['job', 'session', 'job', 'session'])
  })

  it('a session gives way to a job that its worker may have, where no other worker waits', async () => {
    await start({ trainWorkers: 0 })
    await queue.send(ONE, 'save_weights')
    const claim = await queue.ask()
    if (claim === null) throw new Error('nothing was claimed')
    const worker = claim
    const { order } = await queue.turn(worker)
    const next = queue.turn(worker, { order, error: { code: 'x', message: 'x', is_user_error: true } })
    await queue.rests(worker)
    queue.clock.nowMs += 5000
    await queue.submit('a', { entity: 'other' })
    await pass(SWEEP_MS)
    expect(queue.sessions.heldBy({ ...claim, jobId: ONE }).turns.isClosing(), 'for a job of others').toBe(false)

    const leaving = new AbortController()
    const waiting = queue.ask({ ...BOX, id: 'x', memoryBytes: 1 }, { signal: leaving.signal })
    await until(() => queue.dispatcher.remoteWorkers().length === 2, 'the other worker waits')
    await queue.submit('b', { weight_bytes: 2 })
    await settle()
    expect(queue.sessions.heldBy({ ...claim, jobId: ONE }).turns.isClosing(), 'while another worker waits').toBe(false)
    leaving.abort()
    expect(await waiting).not.toBeUndefined()
    await pass(SWEEP_MS)
    expect(await next).toEqual({ type: 'close' })
  })

  it('what it is given after it went away is given back, without a loss', async () => {
    let gone = new AbortController()
    const ids = {
      ...systemIds,
      secret: (bytes: number) => {
        // between the look at the queue and the answer
        gone.abort()
        return systemIds.secret(bytes)
      },
    }
    await start({ trainWorkers: 0, ids })
    const id = await queue.submit('a')
    expect(await queue.ask(BOX, { signal: gone.signal })).toBeNull()
    await until(async () => {
      const { status, startedAtMs } = await jobOf(id)
      return startedAtMs !== null && status === 'queued'
    }, 'the job waits again')
    // an attempt that nobody made is none
    expect(await jobOf(id)).toMatchObject({ losses: 0, attempt: 0 })
    await queue.db.deleteFrom('training_jobs').execute()

    gone = new AbortController()
    await queue.send(ONE)
    expect(await queue.ask(BOX, { signal: gone.signal })).toBeNull()
    await until(() => queue.sessions.stateOf(ONE) === 'waiting', 'the session waits again')
    gone = new AbortController()
    expect(await queue.ask(BOX)).toMatchObject({ id: ONE, kind: 'session', attempt: 2 })
  })

  it('a wait ends when it asks again, for its connection is gone', async () => {
    await start({ trainWorkers: 0 })
    const first = queue.ask()
    await until(() => queue.dispatcher.remoteWorkers().length === 1, 'the first wait')
    const second = queue.ask()
    expect(await first).toBeNull()
    const id = await queue.submit('a')
    expect(await second).toMatchObject({ id })
  })

  it('a claim has a lease in which a process can start, however short leases are', async () => {
    await start({ trainWorkers: 0, timing: { leaseMs: 1000, startMs: 600_000 } })
    const id = await queue.submit('a')
    await queue.ask()
    expect((await jobOf(id)).leaseExpiresAtMs).toBeGreaterThan(Date.now() + 50_000)
  })

  it.each([
    ['loses its job where it has stood still', undefined, 'queued'],
    ['keeps it beside other servers, to which it may send everything', 'a', 'running'],
  ])('a worker %s', async (_, serverId, status) => {
    await start({
      trainWorkers: 0,
      timing: { startMs: 2000, backoffMs: 1e9 },
      ...(serverId === undefined ? {} : { serverId }),
    })
    const id = await queue.submit('a')
    await queue.ask()
    await pass(4000)
    await until(async () => (await statusOf(id)) === status, `the job is ${status}`)
    expect((await jobOf(id)).losses).toBe(status === 'queued' ? 1 : 0)
  })

  it.each([
    ['is watched from its first word on', undefined, 'queued'],
    ['is not watched beside other servers', 'a', 'running'],
  ])('an attempt that began before this process did %s', async (_, serverId, status) => {
    const options = {
      trainWorkers: 0,
      timing: { stallMs: 2000, backoffMs: 1e9 },
      ...(serverId === undefined ? {} : { serverId }),
    }
    await start(options)
    const id = await queue.submit('a')
    await queue.ask()
    // another process goes on with the same database
    await queue.dispatcher.stop()
    await queue.sessions.stop()
    queue = await createQueueFixture({ ...options, before: queue })
    queue.dispatcher.start()
    queue.dispatcher.noteContact({ jobId: id, attempt: 1 }, 'moved')
    await pass(4000)
    await until(async () => (await statusOf(id)) === status, `the job is ${status}`)
  })

  it('beside other servers it takes jobs alone: its worker may send the next request to another one', async () => {
    await start({ trainWorkers: 0, serverId: 'a' })
    await queue.send(ONE)
    const waiting = queue.ask()
    await pass(2 * SWEEP_MS)
    const id = await queue.submit('a')
    expect(await waiting).toMatchObject({ id, kind: 'job' })
  })
})
