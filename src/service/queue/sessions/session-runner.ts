/**
 * Training sessions at work: which of them has a worker, and until when.
 *
 * A session with something to do gets one of the workers that jobs have too (`dispatcher.ts` shares them out) and keeps it while it is
 * used. It gives it back, its state stored, when it was idle for long, or when others wait and it is idle or had its turn. A
 * worker that ends, falls silent or stands still is replaced by one that repeats what is not stored; a request that ends three
 * workers fails.
 */
import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import { areEqualHashes, hashSecret } from '#service/storage/api-keys.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  endSessionRequest,
  failWaitingRequests,
  findSessionRequest,
  noteLoss,
} from '#service/storage/tinker/session-requests.js'
import { deleteExpiredWeights } from '#service/storage/tinker/session-weights.js'
import {
  advanceSession,
  failTrainingSession,
  findTrainingSession,
  giveSessionBack,
  listHeldElsewhere,
  listReadySessions,
  takeSession,
} from '#service/storage/tinker/training-sessions.js'
import { type AttemptLimits, type AttemptWatch, watchAttempt } from '../attempt-watch.js'
import type { RunningWorker } from '../dispatcher.js'
import type { AttemptClaim } from '../lease.js'
import { type AbsentWorker, absentWorker, type RemoteClaim, type RemoteWorker } from '../remote-workers.js'
import type { ServerGroup } from '../server-group.js'
import type { JobSignals } from '../signals.js'
import { createGapWatch } from './session-gaps.js'
import { createSessionTurns, type SessionTurns } from './session-turns.js'

export interface SessionRunnerOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly blobs: Pick<BlobStore, 'put'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly logger: Logger
  /** The servers beside this one: of them one at a time has a session. Null: there are none. */
  readonly group?: ServerGroup | null
  /** Told of every request that ends, by `requestIdOf`. */
  readonly signals: JobSignals
  readonly startWorker: (start: {
    readonly sessionId: string
    readonly baseModel: string
    readonly attempt: number
    readonly token: string
  }) => RunningWorker
  readonly timing: SessionTiming
  readonly requestSweep: () => void
  /** A session needs a worker, or has given one back. */
  readonly onChange: () => void
}

export interface SessionTiming {
  readonly limits: AttemptLimits
  /** The same of workers on other machines, of which nothing is known but what they send. */
  readonly remoteLimits: AttemptLimits
  /** How often `tick` is called. */
  readonly tickMs: number
  /** A session without requests gives its worker back after so long. */
  readonly idleMs: number
  /** Others wait: a busy session gives way so long after its worker began with new requests. */
  readonly turnMs: number
  /** Least time between two stored states. */
  readonly saveIntervalMs: number
  /** A request that has not come although later ones have waited so long for it is given up. */
  readonly gapMs: number
}

/** A session that holds a worker. */
export interface LiveSession {
  /** The worker of another machine that holds it; null: one of this machine. */
  readonly remote: RemoteWorker | null
  readonly id: string
  readonly attempt: number
  readonly turns: SessionTurns
  readonly watch: AttemptWatch
}

export interface SessionRunner {
  /** A request came. */
  notify(sessionId: string): void
  /** Nobody needs the session for now: it gives its worker back. */
  close(sessionId: string): void
  /** It cannot go on from now: what waits fails, and its worker is given back. */
  end(sessionId: string, reason: string): Promise<void>
  /** Whether the session holds a worker, waits for one, or needs none. */
  stateOf(sessionId: string): 'live' | 'waiting' | 'resting'
  /** The session an attempt holds. @throws {ConflictError} `stale_attempt`; {AppError} `invalid_api_key` */
  heldBy(claim: AttemptClaim): LiveSession
  /** Sessions that have a worker of this machine. */
  count(): number
  /** Sessions that have a worker, here or elsewhere, or wait for one. */
  load(): number
  /** Whether one waits for a worker. */
  isWaiting(): boolean
  /** Gives the next that waits a worker. @returns whether there was one */
  startNext(): Promise<boolean>
  /** The same with a worker of another machine, of those that its key sees. */
  startFor(worker: RemoteWorker): Promise<RemoteClaim | null>
  /** Workers of other machines that hold a session. */
  elsewhere(): readonly RemoteWorker[]
  /** Whether one waits that this worker may have. */
  isWaitingFor(worker: RemoteWorker): Promise<boolean>
  /** A worker of another machine has left the session it had. */
  left(workerId: string, how: { readonly reason: string; readonly isOrderly: boolean }): void
  /** Others wait: one session gives its worker back as soon as that is fair. @param workerId of another machine; null: one of this */
  makeRoom(workerId: string | null): void
  /** So much time has passed; called by the queue's timer. */
  tick(): void
  /** Takes up sessions that an earlier server left with requests. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Workers that a request may end before it fails. */
const MOST_LOSSES = 3
/** Workers that may end before they have brought a session back. */
const MOST_STARTS = 3
const BACKOFF_MS = 1000
/** Others wait: a session without requests gives way after so long, for a client thinks between two steps. */
const YIELD_IDLE_MS = 1000

interface Held extends LiveSession {
  readonly tokenHash: string
  readonly worker: RunningWorker
  /** Null on this machine. */
  readonly remote: RemoteWorker | null
  /** Its worker was told to stop, or another server has it: no loss. */
  isOrderly: boolean
}

/** How often weights are looked for that have expired. */
const EXPIRY_MS = 60_000
/** How often it is looked for sessions that no other server has any more. */
const LOOK_MS = 2000

/** By which signals name a request. */
export function requestIdOf(sessionId: string, seq: number): string {
  return `${sessionId}:request:${seq}`
}

/** Whether a signal is about a request of a session, and not about a job. */
export function isRequestId(id: string): boolean {
  return id.includes(':request:')
}

export function createSessionRunner(options: SessionRunnerOptions): SessionRunner {
  const { db, ids, clock, logger, signals, timing, onChange, group = null } = options
  const lives = new Map<string, Held>()
  /** Sessions that need a worker, and when they may have it at the earliest; first in, first out. */
  const waiting = new Map<string, number>()
  /** Starts that failed in a row, before anything was brought back. */
  const failedStarts = new Map<string, number>()
  const endings = new Set<Promise<void>>()
  let isStopped = false
  let ticks = 0
  let lookTicks = 0
  let looking: Promise<void> | null = null
  let isToLookAgain = false
  /** From when on a server that says nothing counts as gone: while the database was away none could say anything. */
  let judgeFromMs = Number.NEGATIVE_INFINITY

  async function dropExpired(): Promise<void> {
    const dropped = await inTransaction(db, (transaction) => deleteExpiredWeights(transaction))
    if (dropped.length > 0) options.requestSweep()
  }

  function wait(id: string, delayMs = 0): void {
    if (isStopped || waiting.has(id)) return
    waiting.set(id, clock.monotonicMs() + delayMs)
    onChange()
  }

  /** Of several servers: takes up what no other has, and leaves alone what another took up. */
  async function lookBeside({ id: serverId, announce }: Pick<ServerGroup, 'id' | 'announce'>): Promise<void> {
    const ready = (await listReadySessions(db)).filter((id) => !lives.has(id))
    const asked = [...new Set([...ready, ...waiting.keys()])]
    const mayJudge = clock.monotonicMs() >= judgeFromMs
    const held = new Set(await listHeldElsewhere(db, asked, serverId, { countsSilent: !mayJudge }))
    for (const id of held) waiting.delete(id)
    for (const id of ready) {
      if (held.has(id) || waiting.has(id)) continue
      wait(id)
      // another one may have a worker for it before this one has
      announce('session-free', id)
    }
  }

  function waitForOthers(): void {
    judgeFromMs = clock.monotonicMs() + (group?.leaseMs ?? 0)
  }

  function look(): void {
    if (group === null || isStopped) return
    // what is told while it looks, it may have looked past
    isToLookAgain = looking !== null
    if (isToLookAgain) return
    looking = lookBeside(group)
      .catch((error: unknown) => {
        waitForOthers()
        logger.error({ err: error }, 'session.not_looked_for')
      })
      .finally(() => {
        looking = null
        if (isToLookAgain) look()
      })
  }

  function wakeHere(id: string): boolean {
    const live = lives.get(id)
    if (live === undefined || live.turns.isClosing()) return false
    live.turns.wake()
    return true
  }

  const gaps = createGapWatch({
    ...{ db, logger, group, gapMs: timing.gapMs },
    tryLive: (id) => wakeHere(id) || lives.has(id),
    onEnd: (id, seq) => signals.notify(requestIdOf(id, seq)),
  })

  group?.on('session', (id) => void wakeHere(id))
  group?.on('session-free', look)
  group?.on('session-close', (id) => lives.get(id)?.turns.close())
  group?.on('session-end', (id) => lives.get(id)?.turns.closeUnstored())
  group?.onMissed(() => {
    waitForOthers()
    look()
  })

  function nextWaiting(): string | null {
    const nowMs = clock.monotonicMs()
    for (const [id, fromMs] of waiting) if (fromMs <= nowMs) return id
    return null
  }

  async function startNext(): Promise<boolean> {
    for (let id = nextWaiting(); id !== null && !isStopped; id = nextWaiting()) {
      waiting.delete(id)
      if (!lives.has(id) && (await isReady(id)) && (await launch(id, null)) !== null) return true
    }
    return false
  }

  async function startFor(remote: RemoteWorker): Promise<RemoteClaim | null> {
    // its worker may send the next request to another server, which does not have the session
    if (group !== null) return null
    for (const id of await waitingFor(remote)) {
      if (isStopped || !waiting.delete(id) || lives.has(id) || !(await isReady(id))) continue
      const claim = await launch(id, remote)
      if (claim !== null) return claim
    }
    return null
  }

  /** Sessions whose turn has come, of those that a worker of another machine may have. */
  async function waitingFor({ tenant }: RemoteWorker): Promise<readonly string[]> {
    const nowMs = clock.monotonicMs()
    const found: string[] = []
    for (const [id, fromMs] of [...waiting]) {
      if (fromMs > nowMs) continue
      const session = await findTrainingSession(db, id)
      if (session === null) waiting.delete(id)
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

  /** @returns what its worker proves itself with; null if the session is gone, or the server stops */
  async function launch(id: string, remote: RemoteWorker | null): Promise<RemoteClaim | null> {
    const attempt = await inTransaction(db, (transaction) => takeSession(transaction, id, group?.id ?? null))
    const session = attempt === null ? null : await findTrainingSession(db, id)
    if (attempt === null || session === null || isStopped) return null
    const token = ids.secret(32)
    const turns = await createSessionTurns({
      ...options,
      session,
      saveIntervalMs: timing.saveIntervalMs,
      gapMs: timing.gapMs,
      onEnd: (seq) => signals.notify(requestIdOf(id, seq)),
      onTaken: () => {
        const live = lives.get(id)
        if (live?.attempt !== attempt) return
        live.isOrderly = true
        live.worker.kill()
      },
    })
    const worker: RunningWorker =
      remote === null
        ? options.startWorker({ sessionId: id, baseModel: session.baseModel, attempt, token })
        : absentWorker()
    const watch = watchAttempt(remote === null ? timing.limits : timing.remoteLimits, timing.tickMs)
    const held: Held = {
      id,
      attempt,
      turns,
      watch,
      worker,
      remote,
      isOrderly: false,
      tokenHash: hashSecret(token),
    }
    lives.set(id, held)
    const { pid = null } = worker
    logger.info(
      { session_id: id, attempt, base_model: session.baseModel, worker_pid: pid, worker: remote?.name },
      'session.started',
    )
    const ending = worker.ended
      .then((reason) => ended(held, reason))
      .catch((error: unknown) => logger.error({ err: error, session_id: id }, 'session.failed'))
      .finally(() => endings.delete(ending))
    endings.add(ending)
    return { jobId: id, attempt, token, modelId: id, isSession: true }
  }

  async function ended(held: Held, reason: string): Promise<void> {
    const { id, turns } = held
    if (lives.get(id) === held) lives.delete(id)
    const isClosed = turns.isClosed()
    turns.stop()
    if (group !== null) {
      const isOwn = (await findTrainingSession(db, id))?.attempt === held.attempt
      await giveSessionBack(db, id, held.attempt)
      if (!isOwn) held.isOrderly = true
      // who has a worker for it hears of it
      group.announce('session-free', id)
    }
    if (isStopped) return
    const facts = { session_id: id, attempt: held.attempt, reason }
    if (isClosed) {
      logger.info({ session_id: id, attempt: held.attempt }, 'session.rests')
      failedStarts.delete(id)
      // a request may have come meanwhile
      wait(id)
    } else if (held.isOrderly) {
      logger.info(facts, 'session.worker_left')
      wait(id)
    } else {
      logger.warn(facts, 'session.worker_lost')
      await afterLoss(held, reason)
    }
    onChange()
  }

  async function afterLoss({ id, turns }: Held, reason: string): Promise<void> {
    const broken = turns.brokenBy()
    const seq = turns.currentSeq()
    if (turns.hasMoved()) failedStarts.delete(id)
    if (broken !== null) return giveUp(id, broken)
    if (seq === null) {
      const count = (failedStarts.get(id) ?? 0) + 1
      failedStarts.set(id, count)
      if (count >= MOST_STARTS) return giveUp(id, reason)
      return wait(id, count * BACKOFF_MS)
    }
    const losses = await noteLoss(db, id, seq)
    if (losses >= MOST_LOSSES)
      await failRequest(id, seq, `${losses} training workers were lost at this request: ${reason}`)
    wait(id, losses * BACKOFF_MS)
  }

  async function failRequest(id: string, seq: number, error: string): Promise<void> {
    const request = await findSessionRequest(db, id, seq)
    if (request?.status !== 'waiting') return
    await inTransaction(db, async (transaction) => {
      await endSessionRequest(transaction, request, { error, isUserError: false })
      await advanceSession(transaction, id, { nextSeq: seq + 1, isStep: false })
    })
    signals.notify(requestIdOf(id, seq))
  }

  /** The session cannot be brought back: whoever waits hears where it stands. */
  async function giveUp(id: string, reason: string): Promise<void> {
    failedStarts.delete(id)
    const error = await inTransaction(db, async (transaction) => {
      const session = await findTrainingSession(transaction, id)
      const last = (session?.nextSeq ?? 1) - 1
      const text = `training run ${id} cannot go on after request ${last}: ${reason}; create a client from a saved state`
      await failTrainingSession(transaction, id, text)
      return { text, failed: await failWaitingRequests(transaction, id, text) }
    })
    logger.error({ session_id: id, reason: error.text }, 'session.given_up')
    for (const seq of error.failed) signals.notify(requestIdOf(id, seq))
  }

  return {
    notify: (id) => {
      gaps.note(id)
      if (wakeHere(id)) return
      if (group === null || lives.has(id)) wait(id)
      else {
        group.announce('session', id)
        look()
      }
    },
    close: (id) => {
      lives.get(id)?.turns.close()
      group?.announce('session-close', id)
    },
    end: async (id, reason) => {
      waiting.delete(id)
      await giveUp(id, reason)
      lives.get(id)?.turns.closeUnstored()
      group?.announce('session-end', id)
    },
    stateOf: (id) => (lives.has(id) ? 'live' : waiting.has(id) ? 'waiting' : 'resting'),
    heldBy: ({ jobId, attempt, token }) => {
      const live = lives.get(jobId)
      if (live === undefined)
        throw new NotFoundError('training_session_not_found', `training run "${jobId}" has no worker`)
      if (live.attempt !== attempt) {
        throw new ConflictError('stale_attempt', `attempt ${attempt} no longer holds the session, ${live.attempt} does`)
      }
      if (!areEqualHashes(live.tokenHash, hashSecret(token))) {
        throw new AppError('authentication', 'invalid_api_key', 'the attempt token is not valid')
      }
      return live
    },
    count: () => [...lives.values()].filter(({ remote }) => remote === null).length,
    load: () => lives.size + waiting.size,
    isWaiting: () => nextWaiting() !== null,
    startNext,
    startFor,
    elsewhere: () => [...lives.values()].flatMap(({ remote }) => remote ?? []),
    isWaitingFor: async (worker) => group === null && waiting.size > 0 && (await waitingFor(worker)).length > 0,
    left: (workerId, { reason, isOrderly }) => {
      for (const held of lives.values()) {
        if (held.remote?.id !== workerId) continue
        held.isOrderly = isOrderly
        ;(held.worker as AbsentWorker).end(reason)
      }
    },
    makeRoom: (workerId) => {
      const held = [...lives.values()].filter(({ remote }) => (remote?.id ?? null) === workerId)
      if (held.some(({ turns }) => turns.isClosing())) return
      const idle = held.filter(({ turns }) => turns.idleMs() >= YIELD_IDLE_MS)
      // a turn in which nothing new was done would be none, where a start takes longer than a turn
      const busy = held.filter(({ turns }) => turns.servedMs() >= timing.turnMs)
      const first = idle.sort((a, b) => b.turns.idleMs() - a.turns.idleMs())[0] ?? busy[0]
      first?.turns.close()
    },
    tick: () => {
      lookTicks += 1
      if (lookTicks * timing.tickMs >= LOOK_MS) {
        lookTicks = 0
        look()
        gaps.look()
      }
      ticks += 1
      if (ticks * timing.tickMs >= EXPIRY_MS) {
        ticks = 0
        dropExpired().catch((error: unknown) => logger.error({ err: error }, 'session.weights_not_dropped'))
      }
      for (const { watch, turns, worker, id } of lives.values()) {
        watch.tick()
        const reason = watch.verdict()
        if (reason !== null) {
          logger.warn({ session_id: id, reason }, 'session.given_up_worker')
          worker.kill()
        } else if (turns.brokenBy() !== null) worker.kill()
        else if (turns.idleMs() >= timing.idleMs) turns.close()
      }
    },
    start: async () => {
      await gaps.start()
      if (group !== null) return lookBeside(group)
      for (const id of await listReadySessions(db)) wait(id)
    },
    stop: async () => {
      isStopped = true
      await Promise.all([looking, gaps.stop()])
      for (const { turns, worker } of lives.values()) {
        turns.stop()
        worker.kill()
      }
      await Promise.all(endings)
    },
  }
}
