/**
 * A database remembers where its blobs are kept: null is the data directory beside it.
 */
import type { Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('database_identity').addColumn('blob_store', 'text').execute()
}
