/**
 * The chat template variables that a checkpoint was trained for.
 */
import type { Kysely } from 'kysely'

/** Adds the column; checkpoints of before were trained for chats without any. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('checkpoints')
    .addColumn('template_kwargs', 'text', (column) => column.notNull().defaultTo('{}'))
    .execute()
}
