/**
 * What several servers on one database must know of each other: who they are, which of them has a training session, how far a job's worker
 * is.
 */
import type { Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('servers')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('url', 'text')
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('started_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('lease_expires_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.alterTable('training_jobs').addColumn('progress', 'bigint').execute()
  await db.schema.alterTable('training_jobs').addColumn('progress_at_ms', 'bigint').execute()
  await db.schema.alterTable('training_sessions').addColumn('server_id', 'text').execute()
}
