/**
 * What people write about their models.
 */
import type { Kysely } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('model_notes')
    .addColumn('model_id', 'text', (c) => c.primaryKey().references('models.id').onDelete('cascade'))
    .addColumn('description', 'text', (c) => c.notNull())
    .addColumn('tags', 'text', (c) => c.notNull())
    .execute()
}
