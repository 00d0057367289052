/**
 * Indexes for lists that sorted all rows of an entity for each page: files.
 */
import type { Kysely } from 'kysely'

/** Adds the indexes. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.createIndex('files_of_entity').on('files').columns(['entity', 'id']).execute()
  await db.schema.createIndex('files_of_project').on('files').columns(['entity', 'project', 'id']).execute()
}
