/**
 * Prompts that are watched, and what each step of their model says to them.
 */
import { type Kysely, sql } from 'kysely'

/** Milliseconds since 1970 by the database's clock, SQLite's spelling. */
const NOW_MS = sql`(cast(unixepoch('subsec') * 1000 as integer))`

/** Creates the tables. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('probes')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('model_id', 'text', (c) => c.notNull().references('models.id').onDelete('cascade'))
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('messages', 'text', (c) => c.notNull())
    .addColumn('max_tokens', 'integer', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .execute()
  await db.schema.createIndex('probes_by_model').on('probes').columns(['model_id', 'id']).execute()
  await db.schema
    .createTable('probe_answers')
    .addColumn('probe_id', 'text', (c) => c.notNull().references('probes.id').onDelete('cascade'))
    .addColumn('step', 'integer', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('is_asked', 'integer', (c) => c.notNull())
    .addColumn('text', 'text')
    .addColumn('finish_reason', 'text')
    .addColumn('completion_tokens', 'integer')
    .addColumn('checkpoint', 'text')
    .addColumn('error', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .addColumn('answered_at_ms', 'bigint')
    .addPrimaryKeyConstraint('probe_answers_key', ['probe_id', 'step'])
    .execute()
  // what waits is looked for every second: the index holds nothing else
  await db.schema
    .createIndex('probe_answers_queued')
    .on('probe_answers')
    .columns(['created_at_ms', 'step'])
    .where(sql.ref('status'), '=', sql.lit('queued'))
    .execute()
}
