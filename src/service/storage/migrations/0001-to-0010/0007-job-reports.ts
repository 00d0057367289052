/**
 * What a job tells about itself, and the rows it is measured on.
 */
import type { Kysely } from 'kysely'

/** Adds the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const jobs = db.schema.alterTable('training_jobs')
  await jobs.addColumn('validation_sha256', 'text').execute()
  await jobs.addColumn('report', 'text').execute()
  await jobs.addColumn('reported_at_ms', 'bigint').execute()
}
