/**
 * Result files of fine-tuning jobs: which was made, so that one that was deleted is not made again.
 */
import type { Kysely } from 'kysely'

/** Adds the column. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('fine_tuning_jobs').addColumn('result_file_id', 'text').execute()
}
