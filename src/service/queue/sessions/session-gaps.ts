/**
 * Sessions that stand before a request that has not come: after a while it is given up with those behind it, or a loop would
 * wait for ever.
 *
 * A session with a worker does that itself (`session-turns.ts`), here or at the server that has it; here it is only woken.
 * Which sessions have anything that waits is known to the server that took it, and read once at its start.
 */
import type { Logger } from '#base/logging/logger.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  endRequestGap,
  findRequestGap,
  listWaitingSessions,
} from '#service/storage/training-sessions/session-requests.js'
import type { Peers } from '../peers.js'

export interface GapWatchOptions {
  readonly db: DatabaseHandle
  readonly logger: Logger
  readonly peers: Pick<Peers, 'heldByOthers' | 'tell'>
  /** Time that later requests wait for one that has not come, by the database's clock. */
  readonly gapMs: number
  /** Wakes a session that has a worker here. @returns whether it has */
  readonly tryLive: (sessionId: string) => boolean
  /** A request has ended. */
  readonly onEnd: (sessionId: string, seq: number) => void
}

export interface GapWatch {
  /** A request of the session came. */
  note(sessionId: string): void
  /** Looks at the sessions in which something waits. */
  look(): void
  start(): Promise<void>
  /** Waits for a look that is under way. */
  stop(): Promise<void>
}

export function createGapWatch({ db, logger, peers, gapMs, tryLive, onEnd }: GapWatchOptions): GapWatch {
  const unfinished = new Set<string>()
  let looking: Promise<void> | null = null

  async function lookAt(id: string): Promise<void> {
    const gap = await findRequestGap(db, id)
    if (gap === null) unfinished.delete(id)
    if (gap === null || gap === 'none' || gap.waitedMs < gapMs || tryLive(id)) return
    if ((await peers.heldByOthers([id])).length > 0) {
      peers.tell('session', id)
      return
    }
    const ended = await inTransaction(db, (transaction) => endRequestGap(transaction, id, gapMs))
    for (const seq of ended?.failed ?? []) onEnd(id, seq)
  }

  async function lookAtAll(): Promise<void> {
    for (const id of [...unfinished]) await lookAt(id)
  }

  return {
    note: (id) => void unfinished.add(id),
    look: () => {
      looking ??= lookAtAll()
        .catch((error: unknown) => logger.error({ err: error }, 'session.gaps_not_looked_for'))
        .finally(() => {
          looking = null
        })
    },
    start: async () => {
      for (const id of await listWaitingSessions(db)) unfinished.add(id)
    },
    stop: async () => {
      await looking
    },
  }
}
