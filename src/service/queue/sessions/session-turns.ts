/**
 * What the worker of one training session is told to do next, and what its reports mean.
 *
 * Requests go strictly by their numbers. A worker that takes over is first told again what changed the session after its last stored
 * state: the same calls give the same bits. Between requests the state is stored now and then, and before the session is taken from
 * its worker. A request is acknowledged to its client once its end is on the disk, so a killed worker or server loses none.
 */
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import { createDeferred } from '#base/util/deferred.js'
import { encodeFrame } from '#base/util/frame.js'
import type { IdSource } from '#base/util/ids.js'
import type { SessionOrder, SessionReport, StepSettingsWire } from '#contract/processes/training-session.js'
import type { BlobStore } from '#service/storage/blobs.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
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
  putSessionState,
  type StoredFile,
  type TrainingSessionRecord,
} from '#service/storage/tinker/training-sessions.js'
import { endSave, withManifest } from './session-saves.js'

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

  function inOrder<T>(action: () => Promise<T>): Promise<T> {
    const result = chain.then(action)
    chain = result.catch(() => undefined)
    return result
  }

  function issue(
    task: Task,
    purpose: Current['purpose'],
    more: Partial<Pick<Current, 'request'>> & { readonly bytes?: Uint8Array | null } = {},
  ): Uint8Array {
    orders += 1
    const frame = encodeFrame({ ...task, order: orders }, more.bytes ?? undefined)
    current = { order: orders, purpose, request: more.request ?? null, frame }
    idleSinceMs = null
    return frame
  }

  function isStoreDue(): boolean {
    if (changes === 0) return false
    if (state === 'closing' || isStoreWanted || journalBytes > MOST_JOURNAL_BYTES) return true
    return clock.monotonicMs() - storedAtMs >= options.saveIntervalMs
  }

  /** The next frame; null: there is nothing to do. */
  async function choose(): Promise<Uint8Array | null> {
    // the answer that said so may have been lost
    if (state === 'closed') return encodeFrame({ type: 'close' })
    const repeated = repeats[0]
    if (repeated !== undefined) return issueRequest(repeated, 'repeat')
    if (isStoreDue()) return issue({ type: 'save', parts: 'state' }, 'store')
    if (state === 'closing') {
      state = 'closed'
      return encodeFrame({ type: 'close' })
    }
    const request = await findSessionRequest(db, session.id, nextSeq)
    if (request?.status === 'waiting') return issueRequest(request, 'request')
    // refused when it came: it has its turn all the same
    if (request?.status === 'failed') {
      await inTransaction(db, (transaction) =>
        advanceSession(transaction, session.id, { nextSeq: request.seq + 1, isStep: false }),
      )
      nextSeq = request.seq + 1
      return choose()
    }
    idleSinceMs ??= clock.monotonicMs()
    return null
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
        return issue({ type: 'save', parts: 'adapter' }, purpose, { request })
      case 'create':
        throw new Error('a session is created before it has a worker')
    }
  }

  async function settle(done: Current, report: SessionReport, output: Uint8Array): Promise<void> {
    const { request, purpose } = done
    if (purpose === 'store') {
      if (report.error === undefined) await store(report.files ?? [])
      else logger.warn({ session_id: session.id, reason: report.error.message }, 'session.not_stored')
      storedAtMs = clock.monotonicMs()
    } else if (request !== null && purpose === 'repeat') {
      if (report.error !== undefined) broken = report.error.message
      repeats.shift()
    } else if (request !== null) {
      await end(request, report, output)
    }
    current = null
    hasMoved = true
  }

  async function store(files: NonNullable<SessionReport['files']>): Promise<void> {
    const stored: StoredFile[] = files.map(({ name, sha256, size_bytes: sizeBytes }) => ({ name, sha256, sizeBytes }))
    await inTransaction(db, async (transaction) => {
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
    const isSave = kind === 'save_weights' || kind === 'save_weights_for_sampler'
    const files = isSave && !isFailed ? await withManifest(options.blobs, report.files ?? []) : []
    await inTransaction(db, async (transaction) => {
      const ending: RequestEnd =
        isSave && !isFailed ? await endSave(transaction, options.ids, request, files) : endOf(request, report, output)
      await endSessionRequest(transaction, request, ending)
      const isStep = kind === 'optim_step' && !isFailed
      await advanceSession(transaction, session.id, { nextSeq: seq + 1, isStep })
    })
    nextSeq = seq + 1
    if (!isFailed && (kind === 'forward_backward' || kind === 'optim_step' || kind === 'load_weights')) {
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
    close: () => {
      if (state === 'open') state = 'closing'
      wake()
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

function endOf({ kind, detail }: SessionRequestRecord, report: SessionReport, output: Uint8Array): RequestEnd {
  if (report.error !== undefined) return { error: report.error.message, isUserError: report.error.is_user_error }
  if (kind === 'forward' || kind === 'forward_backward') return { output }
  if (kind === 'optim_step') return { result: { type: kind, metrics: report.metrics ?? {} } }
  return { result: { type: kind, path: detail['path'], model_id: detail['sessionId'] } }
}
