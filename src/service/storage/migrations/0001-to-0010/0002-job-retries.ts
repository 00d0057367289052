/**
 * When a job that lost its worker may be claimed again.
 */
import type { Kysely } from 'kysely'

/** Adds the column. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('training_jobs').addColumn('retry_at_ms', 'bigint').execute()
}
