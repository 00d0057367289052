/**
 * Training sessions at work: which of them has a worker, and until when.
 *
 * A session with something to do gets one of the workers that jobs have too (`scheduler.ts`) and keeps it while it is used. It
 * gives it back, its state stored, when it was idle for long, or when others wait and it is idle or had its turn. A worker that
 * ends, falls silent or stands still is replaced by one that repeats what is not stored (`session-losses.ts`).
 */
import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import { areEqualHashes, hashSecret } from '#service/storage/api-keys.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { findSessionRequest } from '#service/storage/training-sessions/session-requests.js'
import { deleteExpiredWeights } from '#service/storage/training-sessions/session-weights.js'
import {
  findTrainingSession,
  giveSessionBack,
  takeSession,
} from '#service/storage/training-sessions/training-sessions.js'
import { type AttemptLimits, type AttemptWatch, watchAttempt } from '../attempt-watch.js'
import type { AttemptClaim } from '../lease.js'
import { alone, type Peers } from '../peers.js'
import type { JobSignals } from '../signals.js'
import type { ClaimedWork, FreeWorker, RunningWorker, WorkerEnd, WorkSource } from '../work.js'
import { createGapWatch } from './session-gaps.js'
import { createSessionLosses, type SessionLosses } from './session-losses.js'
import { createSessionQueue, type SessionQueue } from './session-queue.js'
import { createSessionTurns, type SessionTurns } from './session-turns.js'

interface SessionRunnerOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly blobs: Pick<BlobStore, 'put'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly logger: Logger
  /** Other servers on the database, of which one at a time has a session. Default: there are none. */
  readonly peers?: Peers
  /** Signals of requests that end, by `requestIdOf`. */
  readonly signals: JobSignals
  readonly timing: SessionTiming
  readonly requestSweep: () => void
  /** A session needs a worker, or has given one back. */
  readonly onChange: () => void
}

interface SessionTiming {
  readonly limits: AttemptLimits
  /** The same of workers on other machines, of which nothing is known but what they send. */
  readonly remoteLimits: AttemptLimits
  /** Time between two calls of `tick`. */
  readonly tickMs: number
  /** A session without requests gives its worker back after so long. */
  readonly idleMs: number
  /** Least time between two stored states. */
  readonly saveIntervalMs: number
  /** A request that has not come although later ones have waited so long for it is given up. */
  readonly gapMs: number
}

/** A session that holds a worker. */
interface HeldSession {
  readonly id: string
  readonly attempt: number
  readonly turns: SessionTurns
  readonly watch: AttemptWatch
  readonly worker: RunningWorker
}

export interface SessionRunner extends WorkSource {
  preemptible(remoteId: string | null): readonly SessionTurns[]
  /** Hears that a request came. */
  notify(sessionId: string): void
  /** Closes a session that nobody needs for now: it gives its worker back. */
  close(sessionId: string): void
  /** Ends the session: requests that wait fail, and its worker is given back. */
  end(sessionId: string, reason: string): Promise<void>
  /** Whether the session holds a worker, waits for one, or needs none. */
  stateOf(sessionId: string): 'live' | 'waiting' | 'resting'
  /** The session an attempt holds. @throws {ConflictError} `stale_attempt`; {AppError} `invalid_api_key` */
  heldBy(claim: AttemptClaim): HeldSession
  /** Sessions that have a worker, or wait for one. */
  load(): number
  /** Time has passed: another `tickMs`; called by the queue's timer. */
  tick(): void
  /** Takes up sessions that an earlier server left with requests. */
  start(): Promise<void>
  stop(): Promise<void>
}

interface Held extends HeldSession {
  readonly tokenHash: string
  /** Whether another attempt has it: no loss. */
  isOrderly: boolean
}

/** Pause before a session is claimed again whose claim has failed. */
const FAULT_PAUSE_MS = 1000
/** Time between two looks for weights that have expired. */
const EXPIRY_MS = 60_000
/** Time between two looks for sessions that no other server has any more. */
const LOOK_MS = 2000

/** Name of a request in signals. */
export function requestIdOf(sessionId: string, seq: number): string {
  return `${sessionId}:request:${seq}`
}

/** Whether a signal is about a request of a session, and not about a job. */
export function isRequestId(id: string): boolean {
  return id.includes(':request:')
}

/** Sessions that have a worker, each until it has ended. */
function createHeldSessions(
  { db, logger, timing, onChange, peers = alone }: SessionRunnerOptions,
  { queue, losses }: { readonly queue: SessionQueue; readonly losses: SessionLosses },
) {
  const held = new Map<string, Held>()
  const endings = new Set<Promise<void>>()
  let isStopped = false

  async function ended(own: Held, { reason, isOrderly }: WorkerEnd): Promise<void> {
    const { id, attempt, turns } = own
    if (held.get(id) === own) held.delete(id)
    const isClosed = turns.isClosed()
    turns.stop()
    const isOfOther = await handOver(own)
    if (isStopped) return
    if (isClosed) {
      logger.info({ session_id: id, attempt }, 'session.rests')
      losses.forget(id)
      // a request may have come meanwhile
      queue.add(id)
    } else if (own.isOrderly || isOrderly || isOfOther) {
      logger.info({ session_id: id, attempt, reason }, 'session.worker_left')
      queue.add(id)
    } else {
      logger.warn({ session_id: id, attempt, reason }, 'session.worker_lost')
      const pauseMs = await losses.note(id, turns, reason)
      if (pauseMs !== null) queue.add(id, pauseMs)
    }
    onChange()
  }

  /** Leaves the session to whichever server has a worker next. @returns whether another has it already */
  async function handOver({ id, attempt }: Held): Promise<boolean> {
    if (!peers.isShared) return false
    const isOfOther = (await findTrainingSession(db, id))?.attempt !== attempt
    await giveSessionBack(db, id, attempt)
    peers.tell('session-free', id)
    return isOfOther
  }

  function judge({ id, watch, turns, worker }: Held): void {
    watch.tick()
    const reason = watch.verdict()
    if (reason !== null) {
      logger.warn({ session_id: id, reason }, 'session.given_up_worker')
      worker.kill()
    } else if (turns.brokenBy() !== null) worker.kill()
    else if (turns.idleMs() >= timing.idleMs) turns.close()
  }

  return {
    held,
    isStopped: () => isStopped,
    begin: (own: Held, baseModel: string): void => {
      const { id, attempt, worker } = own
      held.set(id, own)
      // a request that came while its worker was started is seen by it
      queue.remove(id)
      const name = worker.remoteId === null ? undefined : worker.facts.name
      logger.info(
        { session_id: id, attempt, base_model: baseModel, worker_pid: worker.pid, worker: name },
        'session.started',
      )
      const ending = worker.ended
        .then((end) => ended(own, end))
        .catch((error: unknown) => logger.error({ err: error, session_id: id }, 'session.failed'))
        .finally(() => endings.delete(ending))
      endings.add(ending)
      if (isStopped) worker.kill()
    },
    /** Drops a session that another attempt has. */
    drop: (id: string, attempt: number): void => {
      const own = held.get(id)
      if (own?.attempt !== attempt) return
      own.isOrderly = true
      own.worker.kill()
    },
    wake: (id: string): boolean => {
      const turns = held.get(id)?.turns
      if (turns === undefined || turns.isClosing()) return false
      turns.wake()
      return true
    },
    tick: (): void => {
      for (const own of held.values()) judge(own)
    },
    stop: async (before: Promise<unknown>): Promise<void> => {
      isStopped = true
      await before
      for (const { turns, worker } of held.values()) {
        turns.stop()
        worker.kill()
      }
      await Promise.all(endings)
    },
  }
}

/** Claims of sessions that wait. */
function createSessionClaims(
  options: SessionRunnerOptions,
  { queue, sessions }: { readonly queue: SessionQueue; readonly sessions: ReturnType<typeof createHeldSessions> },
): Pick<SessionRunner, 'claim' | 'isWaiting'> {
  const { db, ids, signals, timing, peers = alone } = options

  /** Sessions that wait, of those that the worker may have. */
  async function waitingFor({ remoteId, tenant }: FreeWorker): Promise<readonly string[]> {
    if (remoteId === null || tenant === null) return queue.due()
    // its worker may send the next request to another server, which does not have the session
    if (peers.isShared) return []
    const found: string[] = []
    for (const id of queue.due()) {
      const session = await findTrainingSession(db, id)
      if (session === null) queue.remove(id)
      else if (session.entity === tenant.entity && (tenant.project ?? session.project) === session.project)
        found.push(id)
    }
    return found
  }

  async function isReady(id: string): Promise<boolean> {
    const session = await findTrainingSession(db, id)
    if (session === null || session.error !== null) return false
    return (await findSessionRequest(db, id, session.nextSeq)) !== null
  }

  /** Begins an attempt; null if the session is deleted, another server has it, or this one stops. */
  async function take(id: string, { remoteId }: FreeWorker): Promise<ClaimedWork | null> {
    const attempt = await inTransaction(db, (transaction) => takeSession(transaction, id, peers.id))
    const session = attempt === null ? null : await findTrainingSession(db, id)
    if (attempt === null || session === null || sessions.isStopped()) return null
    const token = ids.secret(32)
    const turns = await createSessionTurns({
      ...{ ...options, session, saveIntervalMs: timing.saveIntervalMs, gapMs: timing.gapMs },
      onEnd: (seq) => signals.notify(requestIdOf(id, seq)),
      onTaken: () => sessions.drop(id, attempt),
    })
    const { baseModel } = session
    const watch = watchAttempt(remoteId === null ? timing.limits : timing.remoteLimits, timing.tickMs)
    const tokenHash = hashSecret(token)
    return {
      work: { kind: 'session', id, attempt, token, modelId: id, baseModel },
      begin: (worker) => sessions.begin({ id, attempt, turns, watch, worker, tokenHash, isOrderly: false }, baseModel),
      giveBack: async () => queue.add(id),
    }
  }

  return {
    claim: async (worker) => {
      for (const id of await waitingFor(worker)) {
        if (sessions.isStopped() || !queue.remove(id) || sessions.held.has(id)) continue
        try {
          const claimed = (await isReady(id)) ? await take(id, worker) : null
          if (claimed !== null) return claimed
        } catch (error) {
          // a fault of the database passes, and nobody else remembers that it waits
          queue.add(id, FAULT_PAUSE_MS)
          throw error
        }
      }
      return null
    },
    isWaiting: async (worker) => queue.size() > 0 && (await waitingFor(worker)).length > 0,
  }
}

export function createSessionRunner(options: SessionRunnerOptions): SessionRunner {
  const { db, clock, logger, signals, timing, onChange, peers = alone } = options
  const onEnd = (id: string, seq: number): void => signals.notify(requestIdOf(id, seq))
  const queue = createSessionQueue({ db, clock, logger, peers, onChange, isHeld: (id) => sessions.held.has(id) })
  const losses = createSessionLosses({ db, logger, onEnd })
  const sessions = createHeldSessions(options, { queue, losses })
  const { held, wake } = sessions
  const gaps = createGapWatch({
    ...{ db, logger, peers, onEnd, gapMs: timing.gapMs },
    tryLive: (id) => wake(id) || held.has(id),
  })
  let expiryTicks = 0
  let lookTicks = 0

  async function dropExpired(): Promise<void> {
    const dropped = await inTransaction(db, (transaction) => deleteExpiredWeights(transaction))
    if (dropped.length > 0) options.requestSweep()
  }

  peers.on('session', (id) => void wake(id))
  peers.on('session-close', (id) => held.get(id)?.turns.close())
  peers.on('session-end', (id) => held.get(id)?.turns.closeUnstored())
  return {
    kind: 'session',
    ...createSessionClaims(options, { queue, sessions }),
    preemptible: (remoteId) =>
      [...held.values()].filter(({ worker }) => worker.remoteId === remoteId).map(({ turns }) => turns),
    notify: (id) => {
      gaps.note(id)
      if (wake(id)) return
      if (held.has(id)) queue.add(id)
      else queue.offer(id)
    },
    close: (id) => {
      held.get(id)?.turns.close()
      peers.tell('session-close', id)
    },
    end: async (id, reason) => {
      queue.remove(id)
      await losses.giveUp(id, reason)
      held.get(id)?.turns.closeUnstored()
      peers.tell('session-end', id)
    },
    stateOf: (id) => (held.has(id) ? 'live' : queue.has(id) ? 'waiting' : 'resting'),
    heldBy: ({ jobId, attempt, token }) => {
      const own = held.get(jobId)
      if (own === undefined)
        throw new NotFoundError('training_session_not_found', `training run "${jobId}" has no worker`)
      if (own.attempt !== attempt) {
        throw new ConflictError('stale_attempt', `attempt ${attempt} no longer holds the session, ${own.attempt} does`)
      }
      if (!areEqualHashes(own.tokenHash, hashSecret(token))) {
        throw new AppError('authentication', 'invalid_api_key', 'the attempt token is not valid')
      }
      return own
    },
    load: () => held.size + queue.size(),
    tick: () => {
      lookTicks += 1
      if (lookTicks * timing.tickMs >= LOOK_MS) {
        lookTicks = 0
        queue.look()
        gaps.look()
      }
      expiryTicks += 1
      if (expiryTicks * timing.tickMs >= EXPIRY_MS) {
        expiryTicks = 0
        dropExpired().catch((error: unknown) => logger.error({ err: error }, 'session.weights_not_dropped'))
      }
      sessions.tick()
    },
    start: async () => {
      await gaps.start()
      await queue.start()
    },
    stop: () => sessions.stop(Promise.all([queue.stop(), gaps.stop()])),
  }
}
