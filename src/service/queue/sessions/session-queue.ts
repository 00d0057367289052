/**
 * Sessions that need a worker, first in, first out. One that lost its worker waits for a moment.
 *
 * Servers that share the database have a session one at a time: each takes up what no other has, and leaves alone what
 * another took up.
 */
import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { listReadySessions } from '#service/storage/training-sessions/training-sessions.js'
import type { Peers } from '../peers.js'

interface SessionQueueOptions {
  readonly db: DatabaseHandle
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly logger: Logger
  readonly peers: Peers
  /** Whether the session has a worker of this server. */
  readonly isHeld: (id: string) => boolean
  /** A session has come to wait. */
  readonly onChange: () => void
}

export interface SessionQueue {
  /** Has the session wait for a worker of this server. @param delayMs before which it gets none. Default 0 */
  add(id: string, delayMs?: number): void
  /** Has the session wait for a worker, unless another server has the session, which then hears of its request. */
  offer(id: string): void
  /** @returns whether it waited */
  remove(id: string): boolean
  has(id: string): boolean
  size(): number
  /** Sessions that may have a worker now. */
  due(): readonly string[]
  /** Looks for sessions that no other server has any more. */
  look(): void
  /** Takes up sessions that an earlier server left with requests. */
  start(): Promise<void>
  stop(): Promise<void>
}

export function createSessionQueue({ db, clock, logger, peers, isHeld, onChange }: SessionQueueOptions): SessionQueue {
  /** Sessions with the time before which they get no worker. */
  const waiting = new Map<string, number>()
  let isStopped = false
  let looking: Promise<void> | null = null
  let isToLookAgain = false
  /** Time from which on a silent server counts as gone: while the database was away none could say anything. */
  let judgeFromMs = Number.NEGATIVE_INFINITY

  function add(id: string, delayMs = 0): void {
    if (isStopped || waiting.has(id)) return
    waiting.set(id, clock.monotonicMs() + delayMs)
    onChange()
  }

  async function takeUp(): Promise<void> {
    const ready = (await listReadySessions(db)).filter((id) => !isHeld(id))
    const asked = [...new Set([...ready, ...waiting.keys()])]
    const countsSilent = clock.monotonicMs() < judgeFromMs
    const ofOthers = new Set(await peers.heldByOthers(asked, { countsSilent }))
    for (const id of ofOthers) waiting.delete(id)
    for (const id of ready) {
      if (ofOthers.has(id) || waiting.has(id)) continue
      add(id)
      // another one may have a worker for it before this one has
      peers.tell('session-free', id)
    }
  }

  function waitForOthers(): void {
    judgeFromMs = clock.monotonicMs() + peers.leaseMs
  }

  function look(): void {
    if (!peers.isShared || isStopped) return
    // what is told while it looks, it may have looked past
    isToLookAgain = looking !== null
    if (isToLookAgain) return
    looking = takeUp()
      .catch((error: unknown) => {
        waitForOthers()
        logger.error({ err: error }, 'session.not_looked_for')
      })
      .finally(() => {
        looking = null
        if (isToLookAgain) look()
      })
  }

  peers.on('session-free', look)
  peers.onMissed(() => {
    waitForOthers()
    look()
  })
  return {
    add,
    offer: (id) => {
      if (!peers.isShared) return add(id)
      peers.tell('session', id)
      look()
    },
    remove: (id) => waiting.delete(id),
    has: (id) => waiting.has(id),
    size: () => waiting.size,
    due: () => {
      const nowMs = clock.monotonicMs()
      return [...waiting].filter(([, fromMs]) => fromMs <= nowMs).map(([id]) => id)
    },
    look,
    start: takeUp,
    stop: async () => {
      isStopped = true
      await looking
    },
  }
}
