/**
 * What is wrong with the rows of an uploaded file.
 */
import type { Kysely } from 'kysely'

/** Adds the column; files of before were not looked at. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('files').addColumn('problem', 'text').execute()
}
