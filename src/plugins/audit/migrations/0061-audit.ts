/**
 * The audit log: who changed or fetched what. It names keys and things by id and refers to none, since it outlives them.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('audit_events')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('session_id', 'text')
    .addColumn('action', 'text', (c) => c.notNull())
    .addColumn('target', 'text', (c) => c.notNull())
    .addColumn('made_id', 'text')
    .addColumn('error', 'text')
    .addColumn('request_id', 'text', (c) => c.notNull())
    .addColumn('client', 'text')
    .addColumn('created_at_ms', 'bigint', (c) =>
      c.notNull().defaultTo(sql`(cast(unixepoch('subsec') * 1000 as integer))`),
    )
    .execute()
  await db.schema.createIndex('audit_events_of').on('audit_events').columns(['entity', 'id']).execute()
}
