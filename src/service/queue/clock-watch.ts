/**
 * Notices that the wall clock was set, by the monotonic one, and moves what waits for a time.
 *
 * Durations are measured by the monotonic clock everywhere; this is for times in rows, which must outlive the process.
 */

import type { Logger } from '#base/logging/logger.js'
import type { Clock } from '#base/util/clock.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { moveWaits } from '#service/storage/upkeep/clock-shift.js'

/** Smaller steps are what keeps a clock right. */
const LEAST_JUMP_MS = 2000
const LOOK_MS = 1000

export interface ClockWatch {
  start(): void
  /** Looks now. @returns by how much the clock was set since the last look, milliseconds; 0 when it was not */
  look(): Promise<number>
  stop(): void
}

export function createClockWatch(db: DatabaseHandle, clock: Clock, logger: Logger): ClockWatch {
  /** What stands still between the two readings for seconds, as on a busy machine, reads again: no clock was set. */
  const difference = (): number => {
    for (;;) {
      const beforeMs = clock.monotonicMs()
      const nowMs = clock.nowMs()
      if (clock.monotonicMs() - beforeMs < LEAST_JUMP_MS / 4) return nowMs - beforeMs
    }
  }
  let lastMs = difference()
  let timer: NodeJS.Timeout | null = null

  async function look(): Promise<number> {
    const nowMs = difference()
    const jumpMs = Math.round(nowMs - lastMs)
    lastMs = nowMs
    if (Math.abs(jumpMs) < LEAST_JUMP_MS) return 0
    logger.warn({ jump_ms: jumpMs }, 'clock.set')
    if (jumpMs < 0) await inTransaction(db, (transaction) => moveWaits(transaction, -jumpMs))
    return jumpMs
  }

  return {
    look,
    start: () => {
      const run = (): void =>
        void look().catch((error: unknown) => logger.error({ err: error }, 'clock.waits_not_moved'))
      timer = setInterval(run, LOOK_MS).unref()
    },
    stop: () => {
      if (timer !== null) clearInterval(timer)
    },
  }
}
