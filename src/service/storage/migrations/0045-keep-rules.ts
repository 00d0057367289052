/**
 * Which checkpoints of a model stay, where that is not what the server says.
 */
import type { Kysely } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('keep_rules')
    .addColumn('model_id', 'text', (c) => c.primaryKey().references('models.id').onDelete('cascade'))
    .addColumn('rule', 'text', (c) => c.notNull())
    .execute()
}
