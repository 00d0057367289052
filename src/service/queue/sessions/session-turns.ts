/**
 * What the worker of one training session is told to do next, and what its reports mean.
 *
 * Requests go strictly by their numbers. A worker that takes over is first told again what changed the session after its
 * last stored state: the same calls give the same bits. Between requests the state is stored now and then, and before the
 * session is taken from its worker. A request is acknowledged to its client once its end is on the disk, so a killed worker
 * or server loses none.
 */
import { ConflictError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import { encodeFrame } from '#base/util/frame.js'
import type { IdSource } from '#base/util/ids.js'
import { maxOf } from '#base/util/lists.js'
import type { RequestReport, SessionReport } from '#contract/processes/training-session.js'
import { addSessionTime } from '#service/storage/access/usage-days.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  changesSession,
  type DueRequest,
  endRequestGap,
  endSessionRequest,
  findDueRequest,
  findRequestGap,
  findSessionRequest,
  forgetBodies,
  listChangesSince,
  type RequestEnd,
  type SessionRequestRecord,
} from '#service/storage/tinker/session-requests.js'
import {
  advanceSession,
  findTrainingSession,
  putSessionState,
  type StoredFile,
  type TrainingSessionRecord,
} from '#service/storage/tinker/training-sessions.js'
import { isPassing, isTaken, reasonOf } from './session-faults.js'
import { orderOf, type Task } from './session-orders.js'
import { endSave, savesWeights, withManifest } from './session-saves.js'

export interface SessionTurnsOptions {
  readonly db: DatabaseHandle
  readonly ids: IdSource
  readonly blobs: Pick<BlobStore, 'put'>
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly logger: Logger
  readonly session: TrainingSessionRecord
  /** Least time between two stored states, while the session is in use. */
  readonly saveIntervalMs: number
  /** A request that has not come although later ones have waited so long for it is given up. */
  readonly gapMs: number
  /** A request has ended. */
  readonly onEnd: (seq: number) => void
  /** The session has another worker, of another server: this one may change nothing any more. */
  readonly onTaken: () => void
  /** Blobs have become garbage. */
  readonly requestSweep: () => void
}

export interface SessionTurns {
  /** Takes a report and waits for what is next; answers with a frame. */
  turn(report: SessionReport, output: Uint8Array): Promise<Uint8Array>
  /** Something may go on. */
  wake(): void
  /** Takes the session from its worker once its state is stored. */
  close(): void
  /** Takes it from its worker as it is: nobody goes on with its state. */
  closeUnstored(): void
  isClosing(): boolean
  /** The worker was told to close, with everything stored. */
  isClosed(): boolean
  /** How long nothing was to be done; 0 while something is. */
  idleMs(): number
  /** How long this worker has had new requests, and not what others had before it; 0 before the first. */
  servedMs(): number
  /** The number of the request that its worker works on; null: none of a client. */
  currentSeq(): number | null
  /** Whether this worker has carried out anything. */
  hasMoved(): boolean
  /** Whether its worker is to load the file. */
  isOrdered(sha256: string): boolean
  /** The order to save that its worker has. `stored`: files stored for it, size by digest; whoever takes one notes it there. */
  saving(): { readonly order: number; readonly stored: Map<string, number> } | null
  /** Why the session could not be brought back; null while it can. */
  brokenBy(): string | null
  /** Ends all waiting turns. */
  stop(): void
}

/** What the worker is at. */
interface Current {
  readonly order: number
  readonly purpose: 'request' | 'repeat' | 'store'
  readonly request: SessionRequestRecord | null
  /** The update behind it that its order has, too. */
  readonly next: SessionRequestRecord | null
  readonly frame: Uint8Array
  readonly task: Task
  /** Files that its worker has stored for it, size by digest. */
  readonly stored: Map<string, number>
  readonly issuedAtMs: number
}

/** A request that its worker is done with. */
interface Ending {
  readonly request: SessionRequestRecord
  readonly report: RequestReport
  readonly output: Uint8Array
}

const NO_BYTES = new Uint8Array(0)
/** How long a worker is held that has nothing to do. */
const HOLD_MS = 20_000
/** Results stay readable for so long after their request ended. */
const RESULT_MS = 86_400_000
/** Bytes of rows since the last stored state after which it is stored anew: a new worker would have to repeat all of them. */
const MOST_JOURNAL_BYTES = 64 * 1024 ** 2

export async function createSessionTurns(options: SessionTurnsOptions): Promise<SessionTurns> {
  const { db, clock, session, logger } = options
  const repeats = [...(await listChangesSince(db, session.id, session.stateSeq))]
  let { nextSeq } = session
  let orders = 0
  let current: Current | null = null
  /** Until when the time of orders is counted. */
  let countedUntilMs = 0
  let changes = repeats.length
  let journalBytes = 0
  let storedAtMs = clock.monotonicMs()
  let isStoreWanted = false
  let isStoreGivenUp = false
  let idleSinceMs: number | null = null
  let servedSinceMs: number | null = null
  let state: 'open' | 'closing' | 'closed' | 'stopped' = 'open'
  let hasMoved = false
  let broken: string | null = null
  let generation = 0
  let change = createDeferred<void>()
  /** One report or choice at a time. */
  let chain: Promise<unknown> = Promise.resolve()

  function wake(): void {
    change.resolve()
    change = createDeferred<void>()
  }

  function close(): void {
    if (state === 'open') state = 'closing'
    wake()
  }

  function inOrder<T>(action: () => Promise<T>): Promise<T> {
    const result = chain.then(action)
    chain = result.catch((error: unknown) => {
      if (!isTaken(error)) return
      state = 'stopped'
      options.onTaken()
    })
    return result
  }

  function issue(
    task: Task,
    purpose: Current['purpose'],
    more: Partial<Pick<Current, 'request' | 'next'>> & { readonly bytes?: Uint8Array | null } = {},
  ): Uint8Array {
    orders += 1
    const frame = encodeFrame({ ...task, order: orders }, more.bytes ?? undefined)
    const { request = null, next = null } = more
    current = { order: orders, purpose, request, next, frame, task, stored: new Map(), issuedAtMs: clock.monotonicMs() }
    idleSinceMs = null
    return frame
  }

  /** What a worker changes is changed only while it holds the session. @throws {ConflictError} `stale_attempt` */
  function inOwnTransaction<T>(action: (transaction: Database) => Promise<T>): Promise<T> {
    return inTransaction(db, async (transaction) => {
      await assertOwn(transaction)
      return action(transaction)
    })
  }

  /** @throws {ConflictError} `stale_attempt` */
  async function assertOwn(transaction: Database): Promise<void> {
    const now = (await findTrainingSession(transaction, session.id))?.attempt ?? session.attempt
    if (now === session.attempt) return
    throw new ConflictError('stale_attempt', `attempt ${now} holds the session, ${session.attempt} no longer does`)
  }

  function isStoreDue(): boolean {
    if (changes === 0 || isStoreGivenUp) return false
    if (state === 'closing' || isStoreWanted || journalBytes > MOST_JOURNAL_BYTES) return true
    return clock.monotonicMs() - storedAtMs >= options.saveIntervalMs
  }

  /** The next frame; null: there is nothing to do. */
  async function choose(): Promise<Uint8Array | null> {
    // the answer that said so may have been lost
    if (state === 'closed') return encodeFrame({ type: 'close' })
    const repeated = repeats[0]
    if (repeated !== undefined) return attempt(repeated, 'repeat')
    if (isStoreDue()) return issue({ type: 'save', parts: 'state' }, 'store')
    if (state === 'closing') {
      state = 'closed'
      return encodeFrame({ type: 'close' })
    }
    const due = await findDueRequest(db, session.id, nextSeq)
    const request = due?.request
    if (request?.status === 'waiting') {
      servedSinceMs ??= clock.monotonicMs()
      return attempt(request, 'request', due)
    }
    // refused when it came: it has its turn all the same
    if (request?.status === 'failed') {
      await inOwnTransaction(async (transaction) => {
        await advanceSession(transaction, session.id, { nextSeq: request.seq + 1, isStep: false })
      })
      nextSeq = request.seq + 1
      return choose()
    }
    if (request === undefined && (await endGap())) return choose()
    idleSinceMs ??= clock.monotonicMs()
    return null
  }

  /** @returns whether a request was given up that has not come */
  async function endGap(): Promise<boolean> {
    const gap = await findRequestGap(db, session.id)
    if (gap === null || gap === 'none' || gap.waitedMs < options.gapMs) return false
    const ended = await inOwnTransaction((transaction) => endRequestGap(transaction, session.id, options.gapMs))
    if (ended === null) return false
    nextSeq = ended.nextSeq
    for (const seq of ended.failed) options.onEnd(seq)
    return true
  }

  /** Issues it; one that cannot be issued fails here, and its worker goes on with the next. */
  async function attempt(
    request: SessionRequestRecord,
    purpose: 'request' | 'repeat',
    due: DueRequest | null = null,
  ): Promise<Uint8Array | null> {
    try {
      const { task, bytes, next } = await orderOf(db, request, due)
      return issue(task, purpose, { request, next: next ?? null, bytes: bytes ?? null })
    } catch (error) {
      if (isPassing(error)) throw error
      if (purpose === 'repeat') {
        broken = reasonOf(error)
        return null
      }
      await fail(request, error)
      return choose()
    }
  }

  async function settle(done: Current, report: SessionReport, output: Uint8Array): Promise<void> {
    const { request, next, purpose } = done
    if (purpose === 'store') {
      const reason = report.error === undefined ? await tryToStore(report.files ?? []) : report.error.message
      if (reason !== null) {
        logger.warn({ session_id: session.id, reason }, 'session.not_stored')
        // what it would hold is repeated from the requests
        isStoreGivenUp = state === 'closing'
      }
      storedAtMs = clock.monotonicMs()
    } else if (request !== null && purpose === 'repeat') {
      if (report.error !== undefined) broken = report.error.message
      repeats.shift()
    } else if (request !== null) {
      const { order: _, update, ...own } = report
      const first = { request, report: own, output }
      const isBoth = next !== null && update !== undefined
      await tryToEnd(isBoth ? [first, { request: next, report: update, output: NO_BYTES }] : [first])
    }
    current = null
    hasMoved = true
  }

  /** @returns why it could not be; null: it is */
  async function tryToStore(files: NonNullable<SessionReport['files']>): Promise<string | null> {
    try {
      await store(files)
      return null
    } catch (error) {
      if (isPassing(error)) throw error
      return reasonOf(error)
    }
  }

  async function tryToEnd(endings: readonly Ending[]): Promise<void> {
    try {
      await end(endings)
    } catch (error) {
      if (isPassing(error)) throw error
      const [first] = endings
      if (first === undefined) return
      if (endings.length > 1) {
        // the fault of one is not that of the other; what a worker holds that is given up is not acknowledged
        for (const each of endings) if (!isGivenUp()) await tryToEnd([each])
        return
      }
      await fail(first.request, error)
      // its worker holds what no request has done: the next one begins from what is stored
      if (first.report.error === undefined && changesSession(first.request)) state = 'closed'
    }
  }

  const isGivenUp = (): boolean => state === 'closed'

  /** The server could not do its part of a request, and would not the next time. */
  async function fail(request: SessionRequestRecord, error: unknown): Promise<void> {
    const { seq } = request
    logger.error({ session_id: session.id, seq, err: error }, 'session.request_failed')
    const said = `request ${seq} could not be carried out by the server: ${reasonOf(error)}`
    await inOwnTransaction(async (transaction) => {
      await endSessionRequest(transaction, request, { error: said, isUserError: false })
      await advanceSession(transaction, session.id, { nextSeq: seq + 1, isStep: false })
    })
    nextSeq = seq + 1
    options.onEnd(seq)
  }

  async function store(files: NonNullable<SessionReport['files']>): Promise<void> {
    const stored: StoredFile[] = files.map(({ name, sha256, size_bytes: sizeBytes }) => ({ name, sha256, sizeBytes }))
    await inOwnTransaction(async (transaction) => {
      await putSessionState(transaction, session.id, { files: stored, stateSeq: nextSeq - 1 })
      await forgetBodies(transaction, session.id, { seq: nextSeq - 1, resultMs: RESULT_MS })
    })
    changes = 0
    journalBytes = 0
    isStoreWanted = false
    options.requestSweep()
  }

  /** Ends requests that follow each other, in one transaction. */
  async function end(endings: readonly Ending[]): Promise<void> {
    const nowMs = clock.monotonicMs()
    // requests of one order that are ended one by one share its time
    const sinceMs = Math.max(current?.issuedAtMs ?? nowMs, countedUntilMs)
    const saves = new Map<SessionRequestRecord, readonly StoredFile[]>()
    for (const { request, report } of endings) {
      if (!savesWeights(request) || report.error !== undefined) continue
      saves.set(request, await withManifest(options.blobs, report.files ?? []))
    }
    const next = maxOf(endings.map(({ request }) => request.seq + 1))
    await inTransaction(db, async (transaction) => {
      let count = 0
      let isStep = false
      for (const { request, report, output } of endings) {
        const files = saves.get(request)
        // a write that failed may be done all the same
        const isDone = async () =>
          (await findSessionRequest(transaction, session.id, request.seq))?.status !== 'waiting'
        if (files !== undefined && (await isDone())) continue
        const ending =
          files === undefined ? endOf(request, report, output) : await endSave(transaction, options.ids, request, files)
        if (!(await endSessionRequest(transaction, request, ending))) continue
        count += 1
        isStep ||= request.kind === 'optim_step' && report.error === undefined
      }
      if (count === 0) return assertOwn(transaction)
      await addSessionTime(transaction, session.id, nowMs - sinceMs)
      const isOwn = await advanceSession(transaction, session.id, { nextSeq: next, isStep, attempt: session.attempt })
      if (!isOwn) await assertOwn(transaction)
    })
    countedUntilMs = nowMs
    for (const { request, report } of endings) noteEnd(request, report)
  }

  function noteEnd(request: SessionRequestRecord, report: RequestReport): void {
    const { seq, kind } = request
    nextSeq = seq + 1
    if (report.error === undefined && changesSession(request)) {
      changes += 1
      if (request === current?.request) journalBytes += current.frame.length
      // what it was loaded from may be deleted
      if (kind === 'load_weights') isStoreWanted = true
    }
    if (kind === 'save_weights_for_sampler') options.requestSweep()
    options.onEnd(seq)
  }

  return {
    wake,
    close,
    closeUnstored: () => {
      isStoreGivenUp = true
      close()
    },
    isClosing: () => state === 'closing' || state === 'closed',
    isClosed: () => state === 'closed',
    idleMs: () => (idleSinceMs === null ? 0 : clock.monotonicMs() - idleSinceMs),
    servedMs: () => (servedSinceMs === null ? 0 : clock.monotonicMs() - servedSinceMs),
    currentSeq: () => (current?.purpose === 'request' ? (current.request?.seq ?? null) : null),
    isOrdered: (sha256) => current?.task.type === 'load' && current.task.files.some((file) => file.sha256 === sha256),
    saving: () => (current?.task.type === 'save' ? current : null),
    hasMoved: () => hasMoved,
    brokenBy: () => broken,
    stop: () => {
      state = 'stopped'
      wake()
    },
    turn: async (report, output) => {
      generation += 1
      const mine = generation
      // a turn that was given up by its worker must not take an order that nobody would read
      wake()
      await inOrder(async () => {
        if (current !== null && report.order === current.order) await settle(current, report, output)
      })
      const deadline = new Promise<'late'>((resolve) => setTimeout(resolve, HOLD_MS, 'late').unref())
      for (;;) {
        const changed = change.promise
        const frame = await inOrder(async () => {
          if (generation !== mine || state === 'stopped') return encodeFrame({ type: 'wait' })
          // an answer that was lost on its way
          return current === null ? choose() : current.frame
        })
        if (frame !== null) return frame
        if ((await Promise.race([changed, deadline])) === 'late') return encodeFrame({ type: 'wait' })
      }
    },
  }
}

function endOf({ kind, detail }: SessionRequestRecord, report: RequestReport, output: Uint8Array): RequestEnd {
  if (report.error !== undefined) return { error: report.error.message, isUserError: report.error.is_user_error }
  if (kind === 'forward' || kind === 'forward_backward') return { output }
  if (kind === 'optim_step') return { result: { type: kind, metrics: report.metrics ?? {} } }
  return { result: { type: kind, path: detail['path'], model_id: detail['sessionId'] } }
}
