/**
 * Which worker runs a job, or ran it last.
 */
import type { Kysely } from 'kysely'

/** Adds the column; of jobs of before nobody knows. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('training_jobs').addColumn('worker', 'text').execute()
}
