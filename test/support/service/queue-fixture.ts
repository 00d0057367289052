/**
 * The queue as a server assembles it, jobs and training sessions on the same workers, where a worker is an object and the
 * time of sessions is a number: tests say when a worker ends, what it reports and how late it is.
 */
import { type Mock, vi } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import { createDeferred } from '#base/util/deferred.js'
import { decodeFrame } from '#base/util/frame.js'
import { type IdSource, systemIds } from '#base/util/ids.js'
import type { SessionReport } from '#contract/processes/training-session.js'
import { createServerGroup } from '#plugins/servers/server-group.js'
import {
  createDispatcher,
  DEFAULT_JOB_TIMING,
  type Dispatcher,
  type JobTiming,
  SILENT_LEASES,
} from '#service/queue/dispatcher.js'
import { alone } from '#service/queue/peers.js'
import { createJob } from '#service/queue/queue.js'
import type { RemoteWorker } from '#service/queue/remote-workers.js'
import { createSessionRunner, type SessionRunner } from '#service/queue/sessions/session-runner.js'
import type { SessionTurns } from '#service/queue/sessions/session-turns.js'
import { createJobSignals } from '#service/queue/signals.js'
import type { Work } from '#service/queue/work.js'
import { insertClientSession } from '#service/storage/training-sessions/client-sessions.js'
import { insertSessionRequest, type RequestKind } from '#service/storage/training-sessions/session-requests.js'
import { findTrainingSession, insertTrainingSession } from '#service/storage/training-sessions/training-sessions.js'
import { until } from '../until.js'
import { createJobFixture, type JobFixture, ONCE, TEST_WORKER } from './job-fixture.js'
import { UNHEARD } from './unheard.js'

/** A worker process that is only an object: it lives until it is killed or told how to end. */
export interface StandIn {
  readonly kind: 'job' | 'session'
  /** Of its job or session. */
  readonly id: string
  readonly attempt: number
  readonly token: string
  readonly kill: Mock<() => void>
  end(reason: string): void
}

export interface QueueFixtureOptions {
  readonly trainWorkers: number
  readonly timing?: Partial<JobTiming>
  readonly ids?: IdSource
  /** By which other servers know this one; absent: it is alone. */
  readonly serverId?: string
  /** An earlier process on the same database. */
  readonly before?: JobFixture
}

export const SWEEP_MS = 500
/** A worker of another machine. */
export const BOX: RemoteWorker = {
  ...{ ...TEST_WORKER, id: 'w', name: 'box', trainers: ['onnx'], memoryBytes: null },
  tenant: { entity: 'local', project: null },
}
export const NO_LIMITS = { startMs: 1e9, stallMs: 1e9, leaseMs: 1e8, backoffMs: 0, sessionTurnMs: 1000 }

export type QueueFixture = Awaited<ReturnType<typeof createQueueFixture>>

/** Timers of the queue must be fake (`vi.useFakeTimers`), so that only `pass` moves them. */
export async function createQueueFixture(options: QueueFixtureOptions) {
  const fixture: JobFixture = options.before ?? (await createJobFixture())
  const { db } = fixture
  const logger = createLogger({ level: 'silent' })
  const signals = createJobSignals()
  const { serverId } = options
  const facts = { id: serverId ?? '', url: null, version: '0.1.0' }
  const peers = serverId === undefined ? alone : createServerGroup({ db, shared: UNHEARD, facts, logger })
  const timing: JobTiming = { ...DEFAULT_JOB_TIMING, ...NO_LIMITS, sweepMs: SWEEP_MS, ...options.timing }
  const ids = options.ids ?? systemIds
  const workers: StandIn[] = []
  const clock = { nowMs: 0 }

  function startWorker({ kind, id, attempt, token }: Work) {
    const { promise: ended, resolve: end } = createDeferred<string>()
    const kill = vi.fn(() => end('the worker was killed by SIGKILL'))
    workers.push({ kind, id, attempt, token, kill, end })
    return { ended, kill }
  }

  const sessions: SessionRunner = createSessionRunner({
    ...{ db, ids, logger, signals, peers },
    clock: { monotonicMs: () => clock.nowMs },
    blobs: { put: () => Promise.reject(new Error('nothing is put')) },
    timing: {
      limits: { startMs: timing.startMs, silenceMs: SILENT_LEASES * timing.leaseMs, stallMs: timing.stallMs },
      remoteLimits: { startMs: timing.startMs, silenceMs: timing.leaseMs, stallMs: timing.stallMs },
      ...{ tickMs: SWEEP_MS, idleMs: 1e9, saveIntervalMs: 1e9, gapMs: 60_000 },
    },
    requestSweep: () => undefined,
    onChange: () => dispatcher.wake(),
  })
  const dispatcher: Dispatcher = createDispatcher({
    ...{ db, ids, logger, signals, timing, peers, sessions, startWorker },
    trainWorkers: options.trainWorkers,
    localWorker: TEST_WORKER,
  })
  if (options.before === undefined) {
    await insertClientSession(db, {
      ...{ id: 's', entity: 'local', project: 'p', keyId: 'k', tags: [], userMetadata: {} },
      ...{ sdkVersion: 'test', displayName: null },
    })
  }

  /** A request of the session, which begins with its first. */
  async function send(id: string, kind: RequestKind = 'optim_step'): Promise<number> {
    if ((await findTrainingSession(db, id)) === null) {
      await insertTrainingSession(db, {
        ...{ id, entity: 'local', project: 'p', clientSessionId: 's', baseModel: 'base', rank: 8, alpha: 8, seed: 1 },
        ...{ trainsMlp: true, trainsAttention: true, userMetadata: {}, modelId: null },
      })
    }
    let seq = (await findTrainingSession(db, id))?.nextSeq ?? 0
    const request = { sessionId: id, kind, detail: { settings: {} }, body: null }
    while (!(await insertSessionRequest(db, { ...request, seq }))) seq += 1
    sessions.notify(id)
    return seq
  }

  return {
    ...fixture,
    ...{ dispatcher, sessions, workers, clock, send },
    /** A job of a new model. @param changes columns of its row that are others */
    submit: async (name: string, changes: { readonly entity?: string; readonly weight_bytes?: number } = {}) => {
      const { job } = await createJob(db, fixture.newJob(await fixture.addModel(name)), ONCE)
      if (Object.keys(changes).length > 0)
        await db.updateTable('training_jobs').set(changes).where('id', '=', job.id).execute()
      dispatcher.wake()
      return job.id
    },
    /** The worker at that place, once it is started. */
    started: async (index: number): Promise<StandIn> => until(() => workers[index], `start of worker ${index}`),
    /** A worker of a session reports and asks for its next order. */
    turn: async (
      { id, attempt, token }: Pick<StandIn, 'id' | 'attempt' | 'token'>,
      report: SessionReport = { order: null },
    ): Promise<{ readonly type: string; readonly order: number }> => {
      const { turns } = sessions.heldBy({ jobId: id, attempt, token })
      return decodeFrame(await turns.turn(report, new Uint8Array(0))).head as { type: string; order: number }
    },
    /** The session has done what it was told to, and has nothing else to do. */
    rests: async ({ id, attempt, token }: Pick<StandIn, 'id' | 'attempt' | 'token'>): Promise<SessionTurns> => {
      const { turns } = sessions.heldBy({ jobId: id, attempt, token })
      await until(() => {
        clock.nowMs += 1
        return turns.hasMoved() && turns.idleMs() > 0
      }, 'a session without requests')
      return turns
    },
    /** A worker of another machine asks for work. @param left what became of what it had */
    ask: (
      worker = BOX,
      { left = null, signal = new AbortController().signal }: Partial<Asked> = {},
    ): Promise<Work | null> => dispatcher.claim(worker, { waitMs: 60_000, signal, left, isLeaving: false }),
    close: async (): Promise<void> => {
      await Promise.all([dispatcher.stop(), sessions.stop()])
      await fixture.close()
    },
  }
}

interface Asked {
  readonly left: { readonly reason: string; readonly isOrderly: boolean } | null
  readonly signal: AbortSignal
}

/** Lets the timers of the queue fire for so long, and what they began come to its end. */
export async function pass(timeMs: number): Promise<void> {
  for (let at = 0; at < timeMs; at += SWEEP_MS) {
    vi.advanceTimersByTime(SWEEP_MS)
    await settle()
  }
}

/** What nothing is to follow from, has had the time to follow. */
export const settle = () => new Promise((resolve) => setTimeout(resolve, 5))
