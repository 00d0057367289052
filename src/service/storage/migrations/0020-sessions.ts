/**
 * Sessions of browsers: short-lived tokens that stand for an API key and end with it.
 */
import { type Kysely, sql } from 'kysely'

/** Milliseconds since 1970 by the database's clock, SQLite's spelling. */
const NOW_MS = sql`(cast(unixepoch('subsec') * 1000 as integer))`

/** Creates the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('sessions')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('key_id', 'text', (c) => c.notNull().references('api_keys.id').onDelete('cascade'))
    .addColumn('token_hash', 'text', (c) => c.notNull().unique())
    .addColumn('scope', 'text', (c) => c.notNull())
    .addColumn('name', 'text', (c) => c.notNull().defaultTo(''))
    .addColumn('expires_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .execute()
  await db.schema.createIndex('sessions_by_key').on('sessions').columns(['key_id', 'id']).execute()
}
