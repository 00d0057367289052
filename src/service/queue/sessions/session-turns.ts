/**
 * Orders of one training session's worker: which it gets next, and what its reports mean.
 *
 * Requests go strictly by their numbers. A worker that takes over is first told again what changed the session after its
 * last stored state: the same calls give the same bits. Between requests the state is stored now and then, and before the
 * session is taken from its worker. A request is acknowledged to its client once its end is on the disk, so a killed worker
 * or server loses none.
 */
import { createDeferred } from '#base/util/deferred.js'
import { encodeFrame } from '#base/util/frame.js'
import type { SessionReport } from '#contract/processes/training-session.js'
import {
  changesSession,
  type DueRequest,
  findDueRequest,
  type SessionRequestRecord,
} from '#service/storage/training-sessions/session-requests.js'
import { isPassing, isTaken, reasonOf } from './session-faults.js'
import { createSessionJournal, type Ending, type SessionJournalOptions } from './session-journal.js'
import { orderOf, type Task } from './session-orders.js'

export interface SessionTurnsOptions extends SessionJournalOptions {
  /** The session has another worker, of another server: this one may change nothing any more. */
  readonly onTaken: () => void
}

export interface SessionTurns {
  /** Takes a report and waits for what is next; answers with a frame. */
  turn(report: SessionReport, output: Uint8Array): Promise<Uint8Array>
  /** Looks again, for something may go on. */
  wake(): void
  /** Takes the session from its worker once its state is stored. */
  close(): void
  /** Takes it from its worker as it is: nobody goes on with its state. */
  closeUnstored(): void
  isClosing(): boolean
  /** The worker was told to close, with everything stored. */
  isClosed(): boolean
  /** Time in which nothing was to be done; 0 while something is. */
  idleMs(): number
  /** Time in which this worker has had new requests, and not what others had before it; 0 before the first. */
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

/** Order that the worker is at. */
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

const NO_BYTES = new Uint8Array(0)
/** Time that a worker is held which has nothing to do. */
const HOLD_MS = 20_000

/** Orders of one worker: which it has, which it gets next, what its reports mean. */
interface OrderDesk {
  current(): Current | null
  /** The next frame; null: there is nothing to do. */
  choose(): Promise<Uint8Array | null>
  settle(done: Current, report: SessionReport, output: Uint8Array): Promise<void>
}

/** Reports and orders of one worker, one after the other, over answers that may be lost. */
function createExchange({ current, choose, settle }: OrderDesk, onTaken: () => void) {
  let isStopped = false
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
    chain = result.catch((error: unknown) => {
      if (!isTaken(error)) return
      isStopped = true
      onTaken()
    })
    return result
  }

  return {
    wake,
    isStopped: () => isStopped,
    stop: (): void => {
      isStopped = true
      wake()
    },
    turn: async (report: SessionReport, output: Uint8Array): Promise<Uint8Array> => {
      generation += 1
      const mine = generation
      // a turn that was given up by its worker must not take an order that nobody would read
      wake()
      await inOrder(async () => {
        const done = current()
        if (done !== null && report.order === done.order) await settle(done, report, output)
      })
      const deadline = new Promise<'late'>((resolve) => setTimeout(resolve, HOLD_MS, 'late').unref())
      for (;;) {
        const changed = change.promise
        const frame = await inOrder(async () => {
          if (generation !== mine || isStopped) return encodeFrame({ type: 'wait' })
          // an answer that was lost on its way
          return current()?.frame ?? choose()
        })
        if (frame !== null) return frame
        if ((await Promise.race([changed, deadline])) === 'late') return encodeFrame({ type: 'wait' })
      }
    },
  }
}

export async function createSessionTurns(options: SessionTurnsOptions): Promise<SessionTurns> {
  const { db, clock, session } = options
  const journal = await createSessionJournal(options)
  let orders = 0
  let current: Current | null = null
  let idleSinceMs: number | null = null
  let servedSinceMs: number | null = null
  let state: 'open' | 'closing' | 'closed' = 'open'
  let hasMoved = false
  let broken: string | null = null

  function close(): void {
    if (state === 'open') state = 'closing'
    wake()
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

  /** The next frame; null: there is nothing to do. */
  async function choose(): Promise<Uint8Array | null> {
    // the answer that said so may have been lost
    if (state === 'closed') return encodeFrame({ type: 'close' })
    const repeated = journal.repeats[0]
    if (repeated !== undefined) return attempt(repeated, 'repeat')
    if (journal.isStoreDue(state === 'closing')) return issue({ type: 'save', parts: 'state' }, 'store')
    if (state === 'closing') {
      state = 'closed'
      return encodeFrame({ type: 'close' })
    }
    const due = await findDueRequest(db, session.id, journal.nextSeq())
    const request = due?.request
    if (request?.status === 'waiting') {
      servedSinceMs ??= clock.monotonicMs()
      return attempt(request, 'request', due)
    }
    if (request?.status === 'failed') {
      await journal.passOver(request)
      return choose()
    }
    if (request === undefined && (await journal.endGap())) return choose()
    idleSinceMs ??= clock.monotonicMs()
    return null
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
      await journal.fail(request, error)
      return choose()
    }
  }

  async function settle({ request, next, purpose }: Current, report: SessionReport, output: Uint8Array): Promise<void> {
    if (purpose === 'store') await journal.store(report, state === 'closing')
    else if (request !== null && purpose === 'repeat') {
      if (report.error !== undefined) broken = report.error.message
      journal.repeats.shift()
    } else if (request !== null) {
      const { order: _, update, ...own } = report
      const first = { request, report: own, output }
      const isBoth = next !== null && update !== undefined
      await tryToEnd(isBoth ? [first, { request: next, report: update, output: NO_BYTES }] : [first])
    }
    current = null
    hasMoved = true
  }

  async function tryToEnd(endings: readonly Ending[]): Promise<void> {
    try {
      await journal.end(endings, current)
    } catch (error) {
      if (isPassing(error)) throw error
      const [first] = endings
      if (first === undefined) return
      if (endings.length > 1) {
        // the fault of one is not that of the other; what a worker holds that is given up is not acknowledged
        for (const each of endings) if (!isGivenUp()) await tryToEnd([each])
        return
      }
      await journal.fail(first.request, error)
      // its worker holds what no request has done: the next one begins from what is stored
      if (first.report.error === undefined && changesSession(first.request)) state = 'closed'
    }
  }

  const isGivenUp = (): boolean => state === 'closed'
  const { wake, stop, isStopped, turn } = createExchange({ current: () => current, choose, settle }, options.onTaken)

  return {
    wake,
    close,
    closeUnstored: () => {
      journal.giveUpStore()
      close()
    },
    isClosing: () => state !== 'open' && !isStopped(),
    isClosed: () => state === 'closed' && !isStopped(),
    idleMs: () => (idleSinceMs === null ? 0 : clock.monotonicMs() - idleSinceMs),
    servedMs: () => (servedSinceMs === null ? 0 : clock.monotonicMs() - servedSinceMs),
    currentSeq: () => (current?.purpose === 'request' ? (current.request?.seq ?? null) : null),
    isOrdered: (sha256) => current?.task.type === 'load' && current.task.files.some((file) => file.sha256 === sha256),
    saving: () => (current?.task.type === 'save' ? current : null),
    hasMoved: () => hasMoved,
    brokenBy: () => broken,
    stop,
    turn,
  }
}
