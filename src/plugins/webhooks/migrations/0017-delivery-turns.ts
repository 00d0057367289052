/**
 * Deliveries are looked for by webhook, so that one receiver's many do not stand before another's few.
 */
import type { Kysely } from 'kysely'

/** Replaces the index by time alone. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createIndex('webhook_deliveries_due_of')
    .on('webhook_deliveries')
    .columns(['webhook_id', 'status', 'next_attempt_at_ms'])
    .execute()
  await db.schema.dropIndex('webhook_deliveries_due').execute()
}
