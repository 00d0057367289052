/**
 * What each API key asked for, by day. Beside `usage_days`, whose rows are found by project and model.
 */
import type { Kysely } from 'kysely'

/** Adds the table; what was asked before is not known by key. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('usage_key_days')
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('day', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('requests', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('prompt_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('cached_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('completion_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('usage_key_days_key', ['entity', 'day', 'key_id'])
    .execute()
}
