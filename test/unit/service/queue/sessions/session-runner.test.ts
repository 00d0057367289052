/**
 * How long a training session has its worker while others wait: a turn counts from its first new request. Where a start, or
 * repeats of what a lost worker did, take longer than a turn, sessions would else take turns for ever without doing
 * anything. A worker that is an object.
 */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createDeferred } from '#base/util/deferred.js'
import { decodeFrame } from '#base/util/frame.js'
import { systemIds } from '#base/util/ids.js'
import type { SessionReport } from '#contract/processes/training-session.js'
import { fairTurn } from '#service/queue/fairness.js'
import type { AttemptClaim } from '#service/queue/lease.js'
import { createSessionRunner, type SessionRunner } from '#service/queue/sessions/session-runner.js'
import { createJobSignals } from '#service/queue/signals.js'
import type { WorkerEnd } from '#service/queue/work.js'
import { insertClientSession } from '#service/storage/training-sessions/client-sessions.js'
import { insertSessionRequest } from '#service/storage/training-sessions/session-requests.js'
import { findTrainingSession, insertTrainingSession } from '#service/storage/training-sessions/training-sessions.js'
import { createJobFixture, type JobFixture, TEST_LEASE, TEST_WORKER } from '../../../../support/service/job-fixture.js'
import { until } from '../../../../support/until.js'

const ID = 's:train:0'
const TURN_MS = 1000
const LIMITS = { startMs: 1e9, silenceMs: 1e9, stallMs: 1e9 }
const UPDATE = { type: 'optim_step' }
let fixture: JobFixture
let runner: SessionRunner
let nowMs = 0
/** Ends the worker that runs now, as a kill would. */
let endWorker: (reason: string) => void
let claim: AttemptClaim

beforeEach(async () => {
  fixture = await createJobFixture()
  const { db } = fixture
  nowMs = 0
  await insertClientSession(db, {
    ...{ id: 's', entity: 'local', project: 'p', keyId: 'k', tags: [], userMetadata: {} },
    ...{ sdkVersion: 'test', displayName: null },
  })
  await insertTrainingSession(db, {
    ...{ id: ID, entity: 'local', project: 'p', clientSessionId: 's', baseModel: 'base', rank: 8, alpha: 8, seed: 1 },
    ...{ trainsMlp: true, trainsAttention: true, userMetadata: {}, modelId: null },
  })
  const first = (await findTrainingSession(db, ID))?.nextSeq ?? 0
  for (const seq of [first, first + 1, first + 2]) {
    await insertSessionRequest(db, { sessionId: ID, seq, kind: 'optim_step', detail: { settings: {} }, body: null })
  }
  runner = createSessionRunner({
    ...{ db, ids: systemIds, clock: { monotonicMs: () => nowMs }, logger: createLogger({ level: 'silent' }) },
    blobs: { put: () => Promise.reject(new Error('nothing is put')) },
    signals: createJobSignals(),
    timing: {
      ...{ limits: LIMITS, remoteLimits: LIMITS, tickMs: 500 },
      ...{ idleMs: 1e9, saveIntervalMs: 1e9, gapMs: 60_000 },
    },
    requestSweep: () => undefined,
    onChange: () => undefined,
  })
})
afterEach(async () => {
  await runner.stop()
  await fixture.close()
})

/** The session gets a worker, which has not asked for anything yet. */
async function start(): Promise<void> {
  // beyond the pause after a loss
  nowMs += 60_000
  const claimed = await runner.claim({ ...TEST_LEASE, remoteId: null, group: 'local' })
  if (claimed === null) throw new Error('nothing to claim')
  const { id: jobId, attempt, token } = claimed.work
  claim = { jobId, attempt, token }
  const { promise: ended, resolve } = createDeferred<WorkerEnd>()
  endWorker = (reason) => resolve({ reason, isOrderly: false })
  claimed.begin({ remoteId: null, pid: null, facts: TEST_WORKER, ended, kill: () => endWorker('killed') })
}

async function turn(report: SessionReport): Promise<{ readonly type: string; readonly order: number }> {
  const { turns } = runner.heldBy(claim)
  return decodeFrame(await turns.turn(report, new Uint8Array(0))).head as { type: string; order: number }
}

/** Whether it has to give way to one that waits. */
function isGivingWay(): boolean {
  const held = runner.preemptible(null)
  const turn = fairTurn({ isWorkerFree: false, waiting: new Set(['job']), last: null, held, turnMs: TURN_MS })
  if (turn?.action === 'preempt') turn.work.close()
  return runner.heldBy(claim).turns.isClosing()
}

it('a session gives way a turn after its first new request, however long its start and its repeats took', async () => {
  runner.notify(ID)
  await start()
  nowMs += 20 * TURN_MS
  expect(isGivingWay(), 'after a long start').toBe(false)
  expect(await turn({ order: null })).toMatchObject({ ...UPDATE, order: 1 })
  nowMs += TURN_MS / 2
  expect(await turn({ order: 1, metrics: {} })).toMatchObject({ ...UPDATE, order: 2 })
  endWorker('it was killed')
  await until(() => runner.stateOf(ID) === 'waiting', 'the loss')

  await start()
  nowMs += 20 * TURN_MS
  expect(await turn({ order: null }), 'the first update again').toMatchObject({ ...UPDATE, order: 1 })
  nowMs += 20 * TURN_MS
  expect(isGivingWay(), 'after long repeats').toBe(false)
  expect(await turn({ order: 1, metrics: {} }), 'the second, which is new').toMatchObject({ ...UPDATE, order: 2 })
  nowMs += TURN_MS - 1
  expect(isGivingWay(), 'before its turn is over').toBe(false)
  nowMs += 1
  expect(isGivingWay(), 'after its turn').toBe(true)
  expect(await turn({ order: 2, metrics: {} })).toMatchObject({ type: 'save', order: 3 })
  expect(await turn({ order: 3, files: [] })).toEqual({ type: 'close' })
  // the third is left for its next turn
  expect((await findTrainingSession(fixture.db, ID))?.stepCount).toBe(2)
})
