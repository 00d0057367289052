/**
 * Records calls beside those that are passed on: a bounded queue in memory, a thread that reads and masks, and transactions
 * that write.
 *
 * A call is offered when it has ended and is never waited for. Where the queue is full, or the thread or the database fails,
 * the call is lost for the record; that is counted, said in the log, and written with the next calls that are.
 */
import type { Logger } from '#base/logging/logger.js'
import { type AskedThread, createAskedThread } from '#base/processes/ask-thread.js'
import type { EntryPoint } from '#base/processes/entry.js'
import type { IdSource } from '#base/util/ids.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { CallForm, CallOutcome, GatewayRoute, RecordedCall } from '../route.js'
import { addCounts, insertCalls } from '../storage/calls.js'
import type { ReadCall, UnreadCall } from './reading.js'

/** What one server holds of calls that are not written yet. */
export interface RecorderLimits {
  readonly mostCalls: number
  readonly mostBytes: number
  /** Between two writes, so that a hundred calls a second are no hundred transactions. */
  readonly pauseMs: number
}
const DEFAULT_LIMITS: RecorderLimits = { mostCalls: 2000, mostBytes: 128 * 1024 ** 2, pauseMs: 200 }

/** A call that has ended. */
export interface EndedCall {
  readonly route: GatewayRoute
  readonly form: CallForm
  readonly status: number
  readonly outcome: CallOutcome
  readonly isStream: boolean
  readonly encoding: string | null
  readonly request: Uint8Array
  readonly answer: readonly Uint8Array[]
  /** More came than `answer` holds. */
  readonly isLonger: boolean
  readonly firstByteMs: number | null
  readonly durationMs: number
  readonly startedAtMs: number
}

export interface Recorder {
  /** Counts a call that nothing else is kept of. */
  count(routeId: string): void
  /** Takes a call to be recorded; never throws, and nothing of it is awaited. */
  offer(call: EndedCall): void
  /** Calls that were lost for the record since this server began. */
  lost(): number
  /** Done when all that was offered is written, or lost. */
  settle(): Promise<void>
  close(): Promise<void>
}

interface Waiting {
  readonly id: string
  readonly call: EndedCall
  readonly bytes: number
}

const ENTRY: string = 'plugins/gateway/record/thread.js'
/** Written in one transaction. */
const TOGETHER = 64
/** A thread that had nothing to read for so long ends. */
const IDLE_MS = 30_000

export function createRecorder(
  { db, ids, logger }: { readonly db: DatabaseHandle; readonly ids: IdSource; readonly logger: Logger },
  given: Partial<RecorderLimits>,
): Recorder {
  const limits = { ...DEFAULT_LIMITS, ...given }
  const thread = openThread()
  const queue: Waiting[] = []
  const counts = createCounts()
  let [heldBytes, lostCalls] = [0, 0]
  let timer: NodeJS.Timeout | null = null
  let writing: Promise<void> | null = null
  let isClosed = false

  function note(routeId: string, calls: number, lost: number): void {
    counts.add(routeId, calls, lost)
    lostCalls += lost
    plan()
  }

  function plan(): void {
    if (isClosed || timer !== null || writing !== null) return
    timer = setTimeout(() => void write(), limits.pauseMs).unref()
  }

  function write(): Promise<void> {
    timer = null
    writing ??= writeAll().finally(() => {
      writing = null
      if (queue.length > 0 || !counts.isEmpty()) plan()
    })
    return writing
  }

  async function writeAll(): Promise<void> {
    do {
      const batch = queue.slice(0, TOGETHER)
      const rows: RecordedCall[] = []
      for (const waiting of batch) {
        try {
          rows.push(await read(thread, waiting))
        } catch (error) {
          lose([waiting], error)
        }
      }
      const told = counts.take()
      try {
        await inTransaction(db, async (transaction) => {
          for (const [routeId, held] of told) await addCounts(transaction, routeId, held)
          await insertCalls(transaction, rows)
        })
      } catch (error) {
        // counts wait for the next write, calls do not: what fails once may fail for long
        for (const [routeId, { calls, lost }] of told) counts.add(routeId, calls, lost)
        lose(
          batch.filter(({ id }) => rows.some((row) => row.id === id)),
          error,
        )
      }
      queue.splice(0, batch.length)
      for (const { bytes } of batch) heldBytes -= bytes
      if (batch.length < TOGETHER) return
    } while (queue.length > 0)
  }

  function lose(calls: readonly Waiting[], error: unknown): void {
    for (const { call } of calls) note(call.route.id, 0, 1)
    if (calls.length > 0) logger.warn({ err: error, calls: calls.length, lost_calls: lostCalls }, 'gateway.calls_lost')
  }

  return {
    count: (routeId) => note(routeId, 1, 0),
    offer: (call) => {
      const bytes = call.request.length + call.answer.reduce((sum, part) => sum + part.length, 0)
      const isFull = queue.length >= limits.mostCalls || heldBytes + bytes > limits.mostBytes
      note(call.route.id, 1, isFull || isClosed ? 1 : 0)
      if (isFull || isClosed) {
        logger.warn({ route: call.route.name, waiting: queue.length, lost_calls: lostCalls }, 'gateway.call_lost')
        return
      }
      heldBytes += bytes
      queue.push({ id: ids.uuid(), call, bytes })
      plan()
    },
    lost: () => lostCalls,
    settle: async () => {
      while (queue.length > 0 || !counts.isEmpty() || writing !== null) await write()
    },
    close: async () => {
      if (timer !== null) clearTimeout(timer)
      timer = null
      await writing
      // what is left is written once more; a database that fails then must not keep the service from its end
      await write()
      isClosed = true
      if (timer !== null) clearTimeout(timer)
      await thread.end()
    },
  }
}

function openThread(): AskedThread<UnreadCall, ReadCall> {
  return createAskedThread<UnreadCall, ReadCall>({
    entry: ENTRY as EntryPoint,
    thread: { resourceLimits: { maxOldGenerationSizeMb: 512 } },
    idleMs: IDLE_MS,
    died: (cause) => new Error('the thread that reads recorded calls ended', { cause }),
  })
}

/** Calls of routes, and of them those that were lost, that no row says yet. */
function createCounts() {
  let counts = new Map<string, { readonly calls: number; readonly lost: number }>()
  return {
    isEmpty: () => counts.size === 0,
    add: (routeId: string, calls: number, lost: number): void => {
      const held = counts.get(routeId) ?? { calls: 0, lost: 0 }
      counts.set(routeId, { calls: held.calls + calls, lost: held.lost + lost })
    },
    take: () => {
      const taken = counts
      counts = new Map()
      return taken
    },
  }
}

/** What becomes of a call in a row, as the thread reads it. */
async function read(thread: AskedThread<UnreadCall, ReadCall>, { id, call }: Waiting): Promise<RecordedCall> {
  const { route, form, status, outcome, isStream, encoding, firstByteMs, durationMs, startedAtMs } = call
  const { keepsContent, maxCallBytes: maxBytes, maskPatterns } = route.spec
  const isAnswerCut = call.isLonger || outcome === 'cut' || outcome === 'cancelled'
  const request = Uint8Array.from(call.request)
  const answer = Uint8Array.from(Buffer.concat(call.answer))
  const read = await thread.ask(
    { form, status, isStream, encoding, request, answer, isAnswerCut, keepsContent, maxBytes, maskPatterns },
    [request.buffer, answer.buffer],
  )
  const content = call.isLonger && read.content === 'kept' ? 'too_large' : read.content
  const texts = content === 'kept' ? {} : { request: null, answer: null }
  return {
    ...{ id, routeId: route.id, form, status, outcome, isStream, firstByteMs, durationMs, startedAtMs },
    ...read,
    ...texts,
    content,
  }
}
