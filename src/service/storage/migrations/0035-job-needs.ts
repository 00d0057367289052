/**
 * What a worker must have to take a job: the trainer that its resume point was made by, and memory for its base model.
 */
import type { Kysely } from 'kysely'

/** Adds both columns; of jobs of before nobody knows, and any worker may take them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('training_jobs').addColumn('trainer', 'text').execute()
  await db.schema.alterTable('training_jobs').addColumn('weight_bytes', 'bigint').execute()
}
