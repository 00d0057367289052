/**
 * Journal of a training session, as reports of its worker change it in the database: requests that end, states that are
 * stored, numbers that are passed over.
 *
 * Every write is fenced: only the attempt that holds the session may change it. What changed the session after its last
 * stored state is kept as requests, which the next worker repeats; it is stored anew before that gets long.
 */
import { ConflictError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { IdSource } from '#base/util/ids.js'
import { maxOf } from '#base/util/lists.js'
import type { RequestReport, SessionReport } from '#contract/processes/training-session.js'
import { addSessionTime } from '#service/storage/access/usage-days.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  changesSession,
  endRequestGap,
  endSessionRequest,
  findRequestGap,
  findSessionRequest,
  forgetBodies,
  listChangesSince,
  type RequestEnd,
  type SessionRequestRecord,
} from '#service/storage/training-sessions/session-requests.js'
import {
  advanceSession,
  findTrainingSession,
  putSessionState,
  type StoredFile,
  type TrainingSessionRecord,
} from '#service/storage/training-sessions/training-sessions.js'
import { isPassing, reasonOf } from './session-faults.js'
import { endSave, savesWeights, withManifest } from './session-saves.js'

export interface SessionJournalOptions {
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
  /** Blobs have become garbage. */
  readonly requestSweep: () => void
}

/** A request that its worker is done with. */
export interface Ending {
  readonly request: SessionRequestRecord
  readonly report: RequestReport
  readonly output: Uint8Array
}

/** The order that requests end with. */
interface EndedOrder {
  readonly request: SessionRequestRecord | null
  readonly frame: Uint8Array
  readonly issuedAtMs: number
}

interface SessionJournal {
  /** Requests that a new worker carries out again, in order; whoever has one repeated takes it out. */
  readonly repeats: SessionRequestRecord[]
  /** The number of the request whose turn it is. */
  nextSeq(): number
  /** Whether the state is to be stored before anything else. */
  isStoreDue(isClosing: boolean): boolean
  /** Notes a state that the worker has stored, or could not. */
  store(report: SessionReport, isClosing: boolean): Promise<void>
  /** Stores no state any more, for nobody goes on with it. */
  giveUpStore(): void
  /** Ends requests that follow each other, in one transaction. */
  end(endings: readonly Ending[], order: EndedOrder | null): Promise<void>
  /** Fails a request that the server could not do its part of, and could not the next time. */
  fail(request: SessionRequestRecord, error: unknown): Promise<void>
  /** Passes over a request that was refused when it came: it has its turn all the same. */
  passOver(request: SessionRequestRecord): Promise<void>
  /** @returns whether a request was given up that has not come */
  endGap(): Promise<boolean>
}

/** Results stay readable for so long after their request ended. */
const RESULT_MS = 86_400_000
/** Bytes of rows since the last stored state after which it is stored anew: a new worker would have to repeat all of them. */
const MOST_JOURNAL_BYTES = 64 * 1024 ** 2

export async function createSessionJournal(options: SessionJournalOptions): Promise<SessionJournal> {
  const { db, clock, session, logger } = options
  const repeats = [...(await listChangesSince(db, session.id, session.stateSeq))]
  const inOwnTransaction = <T>(action: (transaction: Database) => Promise<T>): Promise<T> =>
    inTransaction(db, async (transaction) => {
      await assertOwn(transaction, session)
      return action(transaction)
    })
  let { nextSeq } = session
  /** Time up to which that of orders is counted. */
  let countedUntilMs = 0
  let changes = repeats.length
  let journalBytes = 0
  let storedAtMs = clock.monotonicMs()
  let isStoreWanted = false
  let isStoreGivenUp = false

  async function putState(files: NonNullable<SessionReport['files']>): Promise<void> {
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

  function noteEnd({ request, report }: Ending, order: EndedOrder | null): void {
    nextSeq = request.seq + 1
    if (report.error === undefined && changesSession(request)) {
      changes += 1
      if (request === order?.request) journalBytes += order.frame.length
      // the files it was loaded from may be deleted
      if (request.kind === 'load_weights') isStoreWanted = true
    }
    if (request.kind === 'save_weights_for_sampler') options.requestSweep()
    options.onEnd(request.seq)
  }

  return {
    repeats,
    nextSeq: () => nextSeq,
    isStoreDue: (isClosing) => {
      if (changes === 0 || isStoreGivenUp) return false
      if (isClosing || isStoreWanted || journalBytes > MOST_JOURNAL_BYTES) return true
      return clock.monotonicMs() - storedAtMs >= options.saveIntervalMs
    },
    store: async ({ error, files = [] }, isClosing) => {
      const reason = error === undefined ? await lastingReason(() => putState(files)) : error.message
      if (reason !== null) {
        logger.warn({ session_id: session.id, reason }, 'session.not_stored')
        // the requests that it would hold are repeated
        isStoreGivenUp = isClosing
      }
      storedAtMs = clock.monotonicMs()
    },
    giveUpStore: () => {
      isStoreGivenUp = true
    },
    end: async (endings, order) => {
      const nowMs = clock.monotonicMs()
      // requests of one order that are ended one by one share its time
      const sinceMs = Math.max(order?.issuedAtMs ?? nowMs, countedUntilMs)
      await writeEnds(options, endings, nowMs - sinceMs)
      countedUntilMs = nowMs
      for (const ending of endings) noteEnd(ending, order)
    },
    fail: async (request, error) => {
      const { seq } = request
      logger.error({ session_id: session.id, seq, err: error }, 'session.request_failed')
      const said = `request ${seq} could not be carried out by the server: ${reasonOf(error)}`
      await inOwnTransaction(async (transaction) => {
        await endSessionRequest(transaction, request, { error: said, isUserError: false })
        await advanceSession(transaction, session.id, { nextSeq: seq + 1, isStep: false })
      })
      nextSeq = seq + 1
      options.onEnd(seq)
    },
    passOver: async ({ seq }) => {
      await inOwnTransaction(async (transaction) => {
        await advanceSession(transaction, session.id, { nextSeq: seq + 1, isStep: false })
      })
      nextSeq = seq + 1
    },
    endGap: async () => {
      const gap = await findRequestGap(db, session.id)
      if (gap === null || gap === 'none' || gap.waitedMs < options.gapMs) return false
      const ended = await inOwnTransaction((transaction) => endRequestGap(transaction, session.id, options.gapMs))
      if (ended === null) return false
      nextSeq = ended.nextSeq
      for (const seq of ended.failed) options.onEnd(seq)
      return true
    },
  }
}

/** Ends requests and moves their session on, if this attempt holds it. @throws {ConflictError} `stale_attempt` */
async function writeEnds(
  { db, ids, blobs, session }: SessionJournalOptions,
  endings: readonly Ending[],
  timeMs: number,
): Promise<void> {
  const saves = new Map<SessionRequestRecord, readonly StoredFile[]>()
  for (const { request, report } of endings) {
    if (!savesWeights(request) || report.error !== undefined) continue
    saves.set(request, await withManifest(blobs, report.files ?? []))
  }
  const nextSeq = maxOf(endings.map(({ request }) => request.seq + 1))
  await inTransaction(db, async (transaction) => {
    let count = 0
    let isStep = false
    for (const { request, report, output } of endings) {
      const files = saves.get(request)
      // a write that failed may be done all the same
      const isDone = async () => (await findSessionRequest(transaction, session.id, request.seq))?.status !== 'waiting'
      if (files !== undefined && (await isDone())) continue
      const ending =
        files === undefined ? endOf(request, report, output) : await endSave(transaction, ids, request, files)
      if (!(await endSessionRequest(transaction, request, ending))) continue
      count += 1
      isStep ||= request.kind === 'optim_step' && report.error === undefined
    }
    if (count === 0) return assertOwn(transaction, session)
    await addSessionTime(transaction, session.id, timeMs)
    const isOwn = await advanceSession(transaction, session.id, { nextSeq, isStep, attempt: session.attempt })
    if (!isOwn) await assertOwn(transaction, session)
  })
}

/** @throws {ConflictError} `stale_attempt` */
async function assertOwn(transaction: Database, { id, attempt }: TrainingSessionRecord): Promise<void> {
  const now = (await findTrainingSession(transaction, id))?.attempt ?? attempt
  if (now === attempt) return
  throw new ConflictError('stale_attempt', `attempt ${now} holds the session, ${attempt} no longer does`)
}

/** Why an action fails for good; null: it is done. One that may succeed later is thrown, so that the worker reports again. */
async function lastingReason(action: () => Promise<void>): Promise<string | null> {
  try {
    await action()
    return null
  } catch (error) {
    if (isPassing(error)) throw error
    return reasonOf(error)
  }
}

function endOf({ kind, detail }: SessionRequestRecord, report: RequestReport, output: Uint8Array): RequestEnd {
  if (report.error !== undefined) return { error: report.error.message, isUserError: report.error.is_user_error }
  if (kind === 'forward' || kind === 'forward_backward') return { output }
  if (kind === 'optim_step') return { result: { type: kind, metrics: report.metrics ?? {} } }
  return { result: { type: kind, path: detail['path'], model_id: detail['sessionId'] } }
}
