/**
 * Codes that sign a browser in and tickets of downloads: until then in a server's memory, where no other server found them.
 */
import type { Kysely } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('one_time_secrets')
    .addColumn('secret_hash', 'text', (c) => c.primaryKey())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text', (c) => c.notNull().references('api_keys.id').onDelete('cascade'))
    .addColumn('scope', 'text', (c) => c.notNull())
    .addColumn('session_id', 'text')
    .addColumn('usage_project', 'text')
    .addColumn('address', 'text')
    .addColumn('expires_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  const index = (name: string, columns: ('kind' | 'key_id' | 'expires_at_ms')[]) =>
    db.schema.createIndex(name).on('one_time_secrets').columns(columns).execute()
  await index('one_time_secrets_by_end', ['kind', 'expires_at_ms'])
  await index('one_time_secrets_by_key', ['key_id'])
}
