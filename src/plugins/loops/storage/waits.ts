/**
 * Waits of loops, where the wall clock was set: see `service/storage/upkeep/clock-shift.ts`.
 */
import type { Database } from '#service/storage/database.js'
import { loopTables } from './tables.js'

/** Loops wait as long as they did, by a clock that was set back. */
export async function moveWaits(db: Database, byMs: number): Promise<void> {
  await loopTables(db)
    .updateTable('loops')
    .set((e) => ({ not_before_ms: e('not_before_ms', '-', byMs), lease_until_ms: e('lease_until_ms', '-', byMs) }))
    .where('status', 'in', ['queued', 'running'])
    .execute()
}
