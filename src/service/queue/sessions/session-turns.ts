/**
 * What the worker of one training session is told to do next, and what its reports mean.
 *
 * Requests go strictly by their numbers. A worker that takes over is first told again what changed the session after its last stored
 * state: the same calls give the same bits. Between requests the state is stored now and then, and before the session is taken from
 * its worker. A request is acknowledged to its client once its end is on the disk, so a killed worker or server loses none.
 */
import { AppError, ConflictError, fullMessage } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import { encodeFrame } from '#base/util/frame.js'
import type { IdSource } from '#base/util/ids.js'
import type { SessionOrder, SessionReport, StepSettingsWire } from '#contract/processes/training-session.js'
import { addSessionTime } from '#service/storage/access/usage-days.js'
import type { BlobStore } from '#service/storage/blobs.js'
import { type Database, type DatabaseHandle, toStorageError } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  changesSession,
  endSessionRequest,
  findSessionRequest,
  forgetBodies,
  listChangesSince,
  type RequestEnd,
  readRequestBody,
  type SessionRequestRecord,
} from '#service/storage/tinker/session-requests.js'
import { findSessionWeights } from '#service/storage/tinker/session-weights.js'
import {
  advanceSession,
  findTrainingSession,
  putSessionState,
  type StoredFile,
  type TrainingSessionRecord,
} from '#service/storage/tinker/training-sessions.js'
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
  /** The number of the request that its worker works on; null: none of a client. */
  currentSeq(): number | null
  /** Whether this worker has carried out anything. */
  hasMoved(): boolean
  /** Why the session could not be brought back; null while it can. */
  brokenBy(): string | null
  /** Ends all waiting turns. */
  stop(): void
}

type Work = Exclude<SessionOrder, { readonly type: 'wait' | 'close' }>
/** An order without its number. */
type Task = Work extends infer W ? (W extends { readonly order: number } ? Omit<W, 'order'> : never) : never

/** What the worker is at. */
interface Current {
  readonly order: number
  readonly purpose: 'request' | 'repeat' | 'store'
  readonly request: SessionRequestRecord | null
  readonly frame: Uint8Array
  readonly issuedAtMs: number
}

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
  let changes = repeats.length
  let journalBytes = 0
  let storedAtMs = clock.monotonicMs()
  let isStoreWanted = false
  let isStoreGivenUp = false
  let idleSinceMs: number | null = null
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
    more: Partial<Pick<Current, 'request'>> & { readonly bytes?: Uint8Array | null } = {},
  ): Uint8Array {
    orders += 1
    const frame = encodeFrame({ ...task, order: orders }, more.bytes ?? undefined)
    current = { order: orders, purpose, request: more.request ?? null, frame, issuedAtMs: clock.monotonicMs() }
    idleSinceMs = null
    return frame
  }

  /** What a worker changes is changed only while it holds the session. @throws {ConflictError} `stale_attempt` */
  async function inOwnTransaction(action: (transaction: Database) => Promise<void>): Promise<void> {
    await inTransaction(db, async (transaction) => {
      const now = (await findTrainingSession(transaction, session.id))?.attempt ?? session.attempt
      if (now !== session.attempt) {
        throw new ConflictError('stale_attempt', `attempt ${now} holds the session, ${session.attempt} no longer does`)
      }
      await action(transaction)
    })
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
    const request = await findSessionRequest(db, session.id, nextSeq)
    if (request?.status === 'waiting') return attempt(request, 'request')
    // refused when it came: it has its turn all the same
    if (request?.status === 'failed') {
      await inOwnTransaction((transaction) =>
        advanceSession(transaction, session.id, { nextSeq: request.seq + 1, isStep: false }),
      )
      nextSeq = request.seq + 1
      return choose()
    }
    idleSinceMs ??= clock.monotonicMs()
    return null
  }

  /** Issues it; one that cannot be issued fails here, and its worker goes on with the next. */
  async function attempt(request: SessionRequestRecord, purpose: 'request' | 'repeat'): Promise<Uint8Array | null> {
    try {
      return await issueRequest(request, purpose)
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

  async function issueRequest(
    request: SessionRequestRecord,
    purpose: 'request' | 'repeat',
  ): Promise<Uint8Array | null> {
    const { kind, detail, seq } = request
    switch (kind) {
      case 'forward_backward':
      case 'forward': {
        const bytes = await readRequestBody(db, session.id, seq)
        return issue({ type: 'forward_backward' }, purpose, { request, bytes })
      }
      case 'optim_step':
        return issue({ type: 'optim_step', settings: detail['settings'] as StepSettingsWire }, purpose, { request })
      case 'load_weights': {
        const weights = await findSessionWeights(db, { id: String(detail['weightsId']) })
        const files = weights?.files.filter(
          ({ name }) => detail['hasOptimizer'] === true || !name.startsWith('optimizer'),
        )
        const wire = (files ?? []).map(({ name, sha256, sizeBytes }) => ({ name, sha256, size_bytes: sizeBytes }))
        return issue({ type: 'load', files: wire }, purpose, { request })
      }
      case 'save_weights':
        return issue({ type: 'save', parts: 'weights' }, purpose, { request })
      case 'save_weights_for_sampler':
      case 'save_weights_external':
        return issue({ type: 'save', parts: 'adapter' }, purpose, { request })
      case 'create':
        throw new Error('a session is created before it has a worker')
    }
  }

  async function settle(done: Current, report: SessionReport, output: Uint8Array): Promise<void> {
    const { request, purpose } = done
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
      await tryToEnd(request, report, output)
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

  async function tryToEnd(request: SessionRequestRecord, report: SessionReport, output: Uint8Array): Promise<void> {
    try {
      await end(request, report, output)
    } catch (error) {
      if (isPassing(error)) throw error
      await fail(request, error)
      // its worker holds what no request has done: the next one begins from what is stored
      if (report.error === undefined && changesSession(request)) state = 'closed'
    }
  }

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

  async function end(request: SessionRequestRecord, report: SessionReport, output: Uint8Array): Promise<void> {
    const { seq, kind } = request
    const isFailed = report.error !== undefined
    const issuedAtMs = current?.issuedAtMs ?? clock.monotonicMs()
    const isSave = savesWeights(request)
    const files = isSave && !isFailed ? await withManifest(options.blobs, report.files ?? []) : []
    await inOwnTransaction(async (transaction) => {
      // a write that failed may be done all the same
      if ((await findSessionRequest(transaction, session.id, seq))?.status !== 'waiting') return
      const ending: RequestEnd =
        isSave && !isFailed ? await endSave(transaction, options.ids, request, files) : endOf(request, report, output)
      await endSessionRequest(transaction, request, ending)
      const isStep = kind === 'optim_step' && !isFailed
      await addSessionTime(transaction, session.id, clock.monotonicMs() - issuedAtMs)
      await advanceSession(transaction, session.id, { nextSeq: seq + 1, isStep })
    })
    nextSeq = seq + 1
    if (!isFailed && changesSession(request)) {
      changes += 1
      journalBytes += current?.frame.length ?? 0
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
    currentSeq: () => (current?.purpose === 'request' ? (current.request?.seq ?? null) : null),
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

function isTaken(error: unknown): boolean {
  return error instanceof ConflictError && error.code === 'stale_attempt'
}

/** A full disk, a database that another program holds: the worker waits and says the same again. Not its own any more: it hears so. */
function isPassing(error: unknown): boolean {
  if (isTaken(error)) return true
  const known = error instanceof AppError ? error : toStorageError(error)
  return known?.category === 'unavailable'
}

function reasonOf(error: unknown): string {
  return error instanceof AppError ? fullMessage(error) : 'an internal error, which is in its log'
}

function endOf({ kind, detail }: SessionRequestRecord, report: SessionReport, output: Uint8Array): RequestEnd {
  if (report.error !== undefined) return { error: report.error.message, isUserError: report.error.is_user_error }
  if (kind === 'forward' || kind === 'forward_backward') return { output }
  if (kind === 'optim_step') return { result: { type: kind, metrics: report.metrics ?? {} } }
  return { result: { type: kind, path: detail['path'], model_id: detail['sessionId'] } }
}
