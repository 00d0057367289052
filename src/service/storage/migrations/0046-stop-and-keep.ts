/**
 * Jobs that are asked to end after the gradient step they are in, with a checkpoint.
 */
import type { Kysely } from 'kysely'

/** Adds the column. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('training_jobs')
    .addColumn('is_stop_requested', 'integer', (c) => c.notNull().defaultTo(0))
    .execute()
}
