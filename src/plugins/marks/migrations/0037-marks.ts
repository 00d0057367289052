/**
 * Marks: what readers think of answers, for files to train on.
 */
import type { Kysely } from 'kysely'

/** Adds the table; a trajectory has one mark, an answer of a chat as many as were made. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('marks')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('model_id', 'text', (c) => c.notNull().references('models.id').onDelete('cascade'))
    .addColumn('source', 'text', (c) => c.notNull())
    .addColumn('source_id', 'text')
    .addColumn('group_index', 'integer')
    .addColumn('trajectory_index', 'integer')
    .addColumn('pair_with', 'integer')
    .addColumn('step', 'integer')
    .addColumn('mark', 'text', (c) => c.notNull())
    .addColumn('edited', 'text')
    .addColumn('note', 'text')
    .addColumn('content', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('updated_at_ms', 'bigint', (c) => c.notNull())
    .addUniqueConstraint('marks_one_of_place', ['model_id', 'source_id', 'group_index', 'trajectory_index'])
    .execute()
  await db.schema.createIndex('marks_by_model').on('marks').columns(['model_id', 'id']).execute()
}
