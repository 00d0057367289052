/**
 * What the worker of a training session is told next, case by case: answers that are lost, states that cannot be stored,
 * sessions that another worker has, workers that end again and again.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { systemIds } from '#base/util/ids.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  findSessionRequest,
  insertSessionRequest,
  type RequestKind,
} from '#service/storage/training-sessions/session-requests.js'
import { findTrainingSession, takeSession } from '#service/storage/training-sessions/training-sessions.js'
import {
  createQueueFixture,
  pass,
  type QueueFixture,
  type QueueFixtureOptions,
  type StandIn,
  SWEEP_MS,
} from '../../../../support/service/queue-fixture.js'
import { until } from '../../../../support/until.js'

const ID = 's:train:1'
const UPDATE = { type: 'optim_step' }
const FAULT = { code: 'disk_full', message: 'the disk is full', is_user_error: false }
const NO_BYTES = new Uint8Array(0)
/** Longer than the pause after a loss. */
const PAUSE_MS = 60_000
let queue: QueueFixture

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(async () => {
  await queue.close()
  vi.useRealTimers()
})

async function start(options: Partial<QueueFixtureOptions> = {}): Promise<void> {
  queue = await createQueueFixture({ trainWorkers: 1, ...options })
  queue.dispatcher.start()
}

/** The numbers of requests that wait when the session gets its worker. */
async function startWith(...kinds: RequestKind[]): Promise<number[]> {
  queue = await createQueueFixture({ trainWorkers: 1 })
  const seqs: number[] = []
  for (const kind of kinds) seqs.push(await queue.send(ID, kind))
  queue.dispatcher.start()
  return seqs
}

const sessionOf = async () => {
  const session = await findTrainingSession(queue.db, ID)
  if (session === null) throw new Error('no session')
  return session
}
const turnsOf = (worker: StandIn) => queue.sessions.heldBy({ ...worker, jobId: ID }).turns

/** The next worker of the session, after the pause of a loss. */
async function startedAgain(index: number): Promise<StandIn> {
  queue.clock.nowMs += PAUSE_MS
  await pass(SWEEP_MS)
  return queue.started(index)
}

describe('an answer that is lost on its way', () => {
  it('is given again: the order until it is reported, and that the worker may leave', async () => {
    await start()
    await queue.send(ID, 'save_weights')
    const worker = await queue.started(0)
    const order = await queue.turn(worker)
    expect(order).toMatchObject({ type: 'save', order: 1 })
    expect(await queue.turn(worker, { order: null })).toEqual(order)
    const last = queue.turn(worker, { order: 1, error: { ...FAULT, is_user_error: true } })
    await queue.rests(worker)
    queue.sessions.close(ID)
    expect(await last).toEqual({ type: 'close' })
    expect(await queue.turn(worker, { order: 1 })).toEqual({ type: 'close' })
  })

  it('costs nothing twice: a report that is sent again changes nothing', async () => {
    await startWith('optim_step', 'optim_step')
    const worker = await queue.started(0)
    await queue.turn(worker)
    expect(await queue.turn(worker, { order: 1, metrics: {} })).toMatchObject({ ...UPDATE, order: 2 })
    expect(await queue.turn(worker, { order: 1, metrics: {} })).toMatchObject({ ...UPDATE, order: 2 })
    expect((await sessionOf()).stepCount).toBe(1)
  })

  it('takes no order with it: a turn that its worker gave up is told to wait', async () => {
    await start()
    await queue.send(ID, 'save_weights')
    const worker = await queue.started(0)
    await queue.turn(worker)
    const abandoned = queue.turn(worker, { order: 1, error: { ...FAULT, is_user_error: true } })
    await queue.rests(worker)
    const next = queue.turn(worker, { order: 1 })
    expect(await abandoned).toEqual({ type: 'wait' })
    await queue.send(ID)
    expect(await next).toMatchObject({ ...UPDATE, order: 2 })
  })
})

describe('a state that cannot be stored', () => {
  it('keeps no worker that is to leave: the next one repeats the requests', async () => {
    await start()
    await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    const next = queue.turn(worker, { order: 1, metrics: {} })
    await queue.rests(worker)
    queue.sessions.close(ID)
    expect(await next).toMatchObject({ type: 'save', order: 2 })
    expect(await queue.turn(worker, { order: 2, error: FAULT })).toEqual({ type: 'close' })
    worker.end('it left')
    await queue.send(ID)
    const other = await startedAgain(1)
    expect(await queue.turn(other), 'the first update once more').toMatchObject({ ...UPDATE, order: 1 })
    expect(await queue.turn(other, { order: 1, metrics: {} })).toMatchObject({ ...UPDATE, order: 2 })
    expect((await sessionOf()).stepCount).toBe(1)
  })

  it('is not stored where the session is ended, for nobody goes on with it', async () => {
    await start()
    await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    const next = queue.turn(worker, { order: 1, metrics: {} })
    await queue.rests(worker)
    await queue.sessions.end(ID, 'its owner ended it')
    expect(await next).toEqual({ type: 'close' })
  })
})

it('weights that were loaded are stored with the state at once, for where they came from may be deleted', async () => {
  await start()
  await queue.send(ID, 'load_weights')
  const worker = await queue.started(0)
  expect(await queue.turn(worker)).toMatchObject({ type: 'load', order: 1 })
  expect(await queue.turn(worker, { order: 1 })).toMatchObject({ type: 'save', order: 2 })
})

it('a request that was refused when it came has its turn, and the worker goes on with the next', async () => {
  await start()
  const seq = await queue.send(ID)
  await queue.started(0)
  const end = { error: 'learning_rate must be positive', isUserError: true }
  const refused = { sessionId: ID, seq: seq + 1, kind: 'optim_step' as const, detail: {}, body: null }
  await insertSessionRequest(queue.db, refused, end)
  await queue.send(ID)
  const [worker] = queue.workers
  if (worker === undefined) throw new Error('no worker')
  await queue.turn(worker)
  expect(await queue.turn(worker, { order: 1, metrics: {} })).toMatchObject({ ...UPDATE, order: 2 })
  expect((await sessionOf()).nextSeq).toBe(seq + 2)
})

describe('a session that another worker has taken', () => {
  it('is not changed by the one before, which is killed and counts no loss', async () => {
    await start()
    const seq = await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    await inTransaction(queue.db, (transaction) => takeSession(transaction, ID, null))
    const turns = turnsOf(worker)
    await expect(turns.turn({ order: 1, metrics: {} }, NO_BYTES)).rejects.toMatchObject({ code: 'stale_attempt' })
    await until(() => worker.kill.mock.calls.length > 0, 'the kill')
    expect(await findSessionRequest(queue.db, ID, seq)).toMatchObject({ status: 'waiting', losses: 0 })
    const other = await queue.started(1)
    expect(other.attempt).toBe(3)
    expect(await findSessionRequest(queue.db, ID, seq)).toMatchObject({ losses: 0 })
  })
})

describe('a database that is full for a while', () => {
  it('costs no request: the worker reports again', async () => {
    await start()
    const seq = await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    const turns = turnsOf(worker)
    const full = new AppError('unavailable', 'disk_full', 'the disk is full')
    const transaction = vi.spyOn(queue.db, 'transaction').mockImplementation(() => {
      throw full
    })
    await expect(turns.turn({ order: 1, metrics: {} }, NO_BYTES)).rejects.toBe(full)
    transaction.mockRestore()
    expect((await findSessionRequest(queue.db, ID, seq))?.status).toBe('waiting')
    const next = queue.turn(worker, { order: 1, metrics: {} })
    await queue.rests(worker)
    expect((await findSessionRequest(queue.db, ID, seq))?.status).toBe('done')
    turns.stop()
    expect(await next).toEqual({ type: 'wait' })
  })

  it('costs no session its place: it is claimed again when the fault has passed', async () => {
    let isFaulty = true
    let faults = 0
    const secret = (bytes: number): string => {
      faults += 1
      if (isFaulty) throw new AppError('unavailable', 'disk_full', 'the disk is full')
      return systemIds.secret(bytes)
    }
    await start({ ids: { ...systemIds, secret } })
    await queue.send(ID)
    await until(() => faults > 0, 'the fault')
    expect(queue.workers).toHaveLength(0)
    isFaulty = false
    expect(await startedAgain(0)).toMatchObject({ id: ID, kind: 'session' })
  })
})

describe('workers that end', () => {
  it('three times at one request fail it alone: the session goes on with the next', async () => {
    const [seq = 0] = await startWith('optim_step', 'optim_step')
    for (let i = 0; i < 3; i += 1) {
      const worker = i === 0 ? await queue.started(0) : await startedAgain(i)
      expect(await queue.turn(worker)).toMatchObject(UPDATE)
      worker.end('the worker was killed by SIGKILL')
      await until(() => queue.sessions.stateOf(ID) === 'waiting', 'the loss')
    }
    expect((await findSessionRequest(queue.db, ID, seq))?.end).toEqual({
      error: '3 training workers were lost at this request: the worker was killed by SIGKILL',
      isUserError: false,
    })
    const worker = await startedAgain(3)
    expect(await queue.turn(worker)).toMatchObject({ ...UPDATE, order: 1 })
    expect((await sessionOf()).error).toBeNull()
  })

  it('wait for their pause, whatever came while their worker was started', async () => {
    await startWith('optim_step')
    // its worker is being started
    await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    worker.end('the worker was killed by SIGKILL')
    await until(() => queue.sessions.stateOf(ID) === 'waiting', 'the loss')
    await pass(SWEEP_MS)
    expect(queue.workers).toHaveLength(1)
    expect(await startedAgain(1)).toMatchObject({ attempt: 2 })
  })

  it('three times before they asked for anything end the session, which says where it stands', async () => {
    await start()
    const seq = await queue.send(ID)
    for (let i = 0; i < 3; i += 1) {
      const worker = i === 0 ? await queue.started(0) : await startedAgain(i)
      worker.end('the worker exited with code 1')
      await until(() => queue.sessions.stateOf(ID) !== 'live', 'the loss')
    }
    await until(async () => (await sessionOf()).error !== null, 'the end')
    const said = `training run ${ID} cannot go on after request ${seq - 1}: the worker exited with code 1; create a client from a saved state`
    expect((await findSessionRequest(queue.db, ID, seq))?.end).toEqual({ error: said, isUserError: false })
  })

  it('are counted anew once one has brought the session back', async () => {
    await start()
    await queue.send(ID)
    for (let i = 0; i < 5; i += 1) {
      const worker = i === 0 ? await queue.started(0) : await startedAgain(i)
      // the third one repeats nothing, and carries out what waits
      if (i === 2) {
        await queue.turn(worker)
        void queue.turn(worker, { order: 1, metrics: {} })
        await queue.rests(worker)
        await queue.send(ID)
        await until(() => turnsOf(worker).currentSeq() !== null, 'its next request')
      }
      worker.end('the worker exited with code 1')
      await until(() => queue.sessions.stateOf(ID) === 'waiting', 'the loss')
    }
    expect((await sessionOf()).error).toBeNull()
  })

  it('at what is repeated end the session where that fails: it cannot be what it was', async () => {
    await start()
    await queue.send(ID)
    const worker = await queue.started(0)
    await queue.turn(worker)
    void queue.turn(worker, { order: 1, metrics: {} })
    await queue.rests(worker)
    worker.end('the worker was killed by SIGKILL')
    await until(() => queue.sessions.stateOf(ID) !== 'live', 'the loss')
    await queue.send(ID)
    const other = await startedAgain(1)
    expect(await queue.turn(other)).toMatchObject({ ...UPDATE, order: 1 })
    void queue.turn(other, { order: 1, error: FAULT })
    await until(() => turnsOf(other).brokenBy() !== null, 'the repeat fails')
    await pass(SWEEP_MS)
    await until(() => other.kill.mock.calls.length > 0, 'the kill')
    await until(async () => (await sessionOf()).error !== null, 'the end')
    expect((await sessionOf()).error).toContain(FAULT.message)
  })
})

it('a worker that fell silent is killed, and another goes on', async () => {
  await start({ timing: { startMs: 2000 } })
  await queue.send(ID)
  const worker = await queue.started(0)
  await pass(3000)
  await until(() => worker.kill.mock.calls.length > 0, 'the kill')
  expect(await startedAgain(1)).toMatchObject({ id: ID, attempt: 2 })
})

it('of a step that is one order the update is tried alone after a loss, so that it is known at which a worker ends', async () => {
  const [seq = 0] = await startWith('forward_backward', 'optim_step')
  const worker = await queue.started(0)
  expect(await queue.turn(worker)).toMatchObject({ type: 'forward_backward', update: {} })
  worker.end('the worker was killed by SIGKILL')
  await until(() => queue.sessions.stateOf(ID) === 'waiting', 'the loss')
  const other = await startedAgain(1)
  const again = await queue.turn(other)
  expect(again).toMatchObject({ type: 'forward_backward', order: 1 })
  expect(again).not.toHaveProperty('update')
  expect((await findSessionRequest(queue.db, ID, seq))?.losses).toBe(1)
})
