/**
 * Waits of deliveries, where the wall clock was set: see `service/storage/upkeep/clock-shift.ts`.
 */
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { webhookTables } from './tables.js'

/** Deliveries wait as long as they did, by a clock that was set back. */
export async function moveWaits(db: Database, byMs: number): Promise<void> {
  await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set((e) => ({
      next_attempt_at_ms: e('next_attempt_at_ms', '-', byMs),
      claimed_until_ms: e('claimed_until_ms', '-', byMs),
    }))
    .where('status', '=', 'pending')
    .execute()
}

/** Waits that were written in the future end now. @param mostMs the longest wait that a delivery can have */
export async function shortenWaits(db: Database, mostMs: number): Promise<void> {
  await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set({ next_attempt_at_ms: databaseNowMs })
    .where('status', '=', 'pending')
    .where((e) =>
      e.or([e('created_at_ms', '>', databaseNowMs), e('next_attempt_at_ms', '>', e(databaseNowMs, '+', mostMs))]),
    )
    .execute()
}
