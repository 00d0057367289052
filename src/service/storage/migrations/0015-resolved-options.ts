/**
 * Every option a job runs with, and the size its base model had when they were chosen.
 */
import type { Kysely } from 'kysely'

/** Adds the columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const jobs = db.schema.alterTable('training_jobs')
  await jobs.addColumn('resolved_config', 'text').execute()
  await jobs.addColumn('base_parameters', 'bigint').execute()
}
