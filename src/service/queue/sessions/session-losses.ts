/**
 * Losses of a training session: a worker that ended is replaced, with a pause that grows; a request that ends three workers
 * fails, and the session goes on without it; a session that three workers could not bring back ends.
 */
import type { Logger } from '#base/logging/logger.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  endSessionRequest,
  failWaitingRequests,
  findSessionRequest,
  noteLoss,
} from '#service/storage/training-sessions/session-requests.js'
import {
  advanceSession,
  failTrainingSession,
  findTrainingSession,
} from '#service/storage/training-sessions/training-sessions.js'
import type { SessionTurns } from './session-turns.js'

/** Workers that a request may end before it fails. */
const MOST_LOSSES = 3
/** Workers that may end before they have brought a session back. */
const MOST_STARTS = 3
const BACKOFF_MS = 1000

export interface SessionLosses {
  /** Notes a lost worker. @returns the pause before the next one; null: the session has ended */
  note(
    id: string,
    turns: Pick<SessionTurns, 'brokenBy' | 'currentSeq' | 'hasMoved'>,
    reason: string,
  ): Promise<number | null>
  /** Forgets losses: a worker gave the session back in order. */
  forget(id: string): void
  /** Ends a session that cannot be brought back: whoever waits hears where it stands. */
  giveUp(id: string, reason: string): Promise<void>
}

interface SessionLossesOptions {
  readonly db: DatabaseHandle
  readonly logger: Logger
  /** A request has ended. */
  readonly onEnd: (sessionId: string, seq: number) => void
}

export function createSessionLosses({ db, logger, onEnd }: SessionLossesOptions): SessionLosses {
  /** Starts that failed in a row, before anything was brought back. */
  const failedStarts = new Map<string, number>()

  async function failRequest(id: string, seq: number, error: string): Promise<void> {
    const request = await findSessionRequest(db, id, seq)
    if (request?.status !== 'waiting') return
    await inTransaction(db, async (transaction) => {
      await endSessionRequest(transaction, request, { error, isUserError: false })
      await advanceSession(transaction, id, { nextSeq: seq + 1, isStep: false })
    })
    onEnd(id, seq)
  }

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
    for (const seq of error.failed) onEnd(id, seq)
  }

  return {
    giveUp,
    forget: (id) => void failedStarts.delete(id),
    note: async (id, turns, reason) => {
      const broken = turns.brokenBy()
      const seq = turns.currentSeq()
      if (turns.hasMoved()) failedStarts.delete(id)
      const starts = (failedStarts.get(id) ?? 0) + 1
      if (broken !== null || (seq === null && starts >= MOST_STARTS)) {
        await giveUp(id, broken ?? reason)
        return null
      }
      if (seq === null) {
        failedStarts.set(id, starts)
        return starts * BACKOFF_MS
      }
      const losses = await noteLoss(db, id, seq)
      if (losses >= MOST_LOSSES)
        await failRequest(id, seq, `${losses} training workers were lost at this request: ${reason}`)
      return losses * BACKOFF_MS
    },
  }
}
