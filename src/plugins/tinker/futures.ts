/**
 * Results by long poll. One that was read stays readable: its answer may have been lost.
 */
import { AppError, NotFoundError } from '#base/errors/errors.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findOwnedRequest, type RequestEnd } from '#service/storage/training-sessions/session-requests.js'
import { unknownTrainingRun } from './errors.js'
import type { SampleState } from './samples.js'

/** The body of an answer. */
export type FutureAnswer =
  | { readonly kind: 'json'; readonly body: Readonly<Record<string, unknown>> }
  | { readonly kind: 'protobuf'; readonly bytes: Uint8Array }
  /** Not yet: 408, which the client repeats without a warning. */
  | { readonly kind: 'later'; readonly body: Readonly<Record<string, unknown>> }
  /** Not known any more: 410, for which the client sends a sample again. */
  | { readonly kind: 'gone' }

/** The client gives up after 45 s. */
const HOLD_MS = 25_000
/** A notice may be missed: the database is looked at so often anyway. */
const LOOK_MS = 5000

export interface FuturesOptions extends Pick<ServiceContext, 'db' | 'signals' | 'sessions' | 'clock' | 'trainWorkers'> {
  /** Whether other servers may share the database: then workers of other machines take no sessions. */
  readonly isShared: boolean
  readonly sampleState: (principal: Principal, id: string) => SampleState
}

export function createFutures(options: FuturesOptions) {
  const { db, signals, sessions, clock, sampleState, trainWorkers, isShared } = options

  async function ofRun(principal: Principal, id: string, at: Address, signal: AbortSignal): Promise<FutureAnswer> {
    const { sessionId, seq } = at
    const untilMs = clock.monotonicMs() + HOLD_MS
    for (;;) {
      const leftMs = untilMs - clock.monotonicMs()
      const stop = new AbortController()
      // listened for before it is looked at, or a notice in between would be missed
      const changed = signals.wait(id, Math.min(LOOK_MS, Math.max(1, leftMs)), AbortSignal.any([signal, stop.signal]))
      const request = await findOwnedRequest(db, sessionId, seq)
      if (request === null || !isOwn(principal, request)) {
        stop.abort()
        throw unknownTrainingRun(sessionId)
      }
      if (!request.isKnown) {
        stop.abort()
        // it came, and its result was kept for a day
        if (seq < request.nextSeq) return { kind: 'gone' }
        throw new NotFoundError('request_not_found', `request ${seq} of training run "${sessionId}" was not found`)
      }
      if (request.end !== null) {
        stop.abort()
        return toAnswer(request.end)
      }
      if (leftMs <= 0 || signal.aborted) {
        stop.abort()
        return { kind: 'later', body: tryAgain(id, waitReason(sessionId)) }
      }
      await changed
    }
  }

  function waitReason(sessionId: string): string | null {
    if (sessions.stateOf(sessionId) !== 'waiting') return null
    if (isShared && trainWorkers === 0) {
      return 'this server has no training workers and no other server has a free one: start one with --train-workers 1'
    }
    return 'all training workers are taken by other jobs and runs; --train-workers says how many there are'
  }

  async function ofSample(principal: Principal, id: string, signal: AbortSignal): Promise<FutureAnswer> {
    const state = sampleState(principal, id)
    if (state.kind === 'running') {
      const late = new Promise<void>((resolve) => {
        setTimeout(resolve, HOLD_MS).unref()
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await Promise.race([state.changed, late])
    }
    const now = sampleState(principal, id)
    switch (now.kind) {
      case 'running':
        return { kind: 'later', body: tryAgain(id, null) }
      case 'done':
        return { kind: 'protobuf', bytes: now.output }
      case 'failed':
        return toAnswer(now)
      case 'gone':
        return { kind: 'gone' }
    }
  }

  return {
    retrieve: (principal: Principal, id: string, signal: AbortSignal): Promise<FutureAnswer> => {
      const [, sessionId, seq] = /^(.+):request:(\d{1,9})$/.exec(id) ?? []
      if (sessionId !== undefined) return ofRun(principal, id, { sessionId, seq: Number(seq) }, signal)
      if (/:answer:[^:]+$/.test(id)) return ofSample(principal, id, signal)
      throw new AppError('not_found', 'request_not_found', `request "${id.slice(0, 200)}" was not found`)
    },
  }
}

interface Address {
  readonly sessionId: string
  readonly seq: number
}

function toAnswer(end: RequestEnd): FutureAnswer {
  if ('output' in end) return { kind: 'protobuf', bytes: end.output }
  if ('result' in end) return { kind: 'json', body: end.result }
  return { kind: 'json', body: { error: end.error, category: end.isUserError ? 'user' : 'server' } }
}

function tryAgain(id: string, reason: string | null): Readonly<Record<string, unknown>> {
  return {
    type: 'try_again',
    request_id: id,
    queue_state: reason === null ? 'active' : 'paused_capacity',
    ...(reason === null ? {} : { queue_state_reason: reason }),
  }
}
