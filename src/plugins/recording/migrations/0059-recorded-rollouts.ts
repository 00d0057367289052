/**
 * Rollouts of programs that ask the model themselves.
 */
import { type Kysely, sql } from 'kysely'
import { createBlobTriggers } from '#service/storage/migrations/0014-blob-upkeep.js'

/** Calls are joined to one trajectory and serve nothing else. */
const BLOBS = [
  ['recorded_rollouts', 'body_sha256', 0],
  ['recorded_calls', 'body_sha256', 1],
] as const

/** Adds the tables, and triggers that note blobs that go. */
export async function sqlite(db: Kysely<unknown>): Promise<void> {
  await createTables(db)
  await createBlobTriggers(db, BLOBS)
}

/** The same with PostgreSQL's triggers, which call a function of the core's. */
export async function postgres(db: Kysely<unknown>): Promise<void> {
  await createTables(db)
  for (const [table, column, isTransient] of BLOBS) {
    const run = `for each row execute function note_dropped_blob('${column}', '${isTransient}')`
    await sql.raw(`create trigger ${table}_${column}_dropped after delete on ${table} ${run}`).execute(db)
    await sql.raw(`create trigger ${table}_${column}_changed after update of ${column} on ${table} ${run}`).execute(db)
  }
}

async function createTables(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  await schema
    .createTable('recorded_rollouts')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('usage_project', 'text')
    .addColumn('token_hash', 'text')
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('parent_id', 'text')
    .addColumn('session', 'text')
    .addColumn('model', 'text', (c) => c.notNull())
    .addColumn('run', 'text', (c) => c.notNull())
    .addColumn('task', 'text', (c) => c.notNull())
    .addColumn('task_group', 'text', (c) => c.notNull())
    .addColumn('sampling', 'text', (c) => c.notNull())
    .addColumn('max_turns', 'integer', (c) => c.notNull())
    .addColumn('max_tokens', 'bigint', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('turns', 'integer', (c) => c.notNull())
    .addColumn('sampled_tokens', 'bigint', (c) => c.notNull())
    .addColumn('recorded_tokens', 'bigint', (c) => c.notNull())
    .addColumn('undelivered_calls', 'integer', (c) => c.notNull())
    .addColumn('overridden_calls', 'integer', (c) => c.notNull())
    .addColumn('result', 'text')
    .addColumn('body_sha256', 'text')
    .addColumn('body_bytes', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('expires_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('ended_at_ms', 'bigint')
    .execute()
  const unique = (name: string) => schema.createIndex(`recorded_rollouts_${name}`).on('recorded_rollouts').unique()
  await unique('by_token').column('token_hash').execute()
  await unique('by_session').columns(['parent_id', 'session']).execute()
  const index = (name: string) => schema.createIndex(`recorded_rollouts_${name}`).on('recorded_rollouts')
  await index('of_entity').columns(['entity', 'id']).execute()
  await index('of_run').columns(['entity', 'run', 'id']).execute()
  await index('by_end').columns(['ended_at_ms', 'entity']).execute()
  await index('open').columns(['entity', 'expires_at_ms']).where(sql.ref('ended_at_ms'), 'is', null).execute()
  await schema
    .createTable('recorded_calls')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('rollout_id', 'text', (c) => c.notNull().references('recorded_rollouts.id').onDelete('cascade'))
    .addColumn('body_sha256', 'text', (c) => c.notNull())
    .execute()
  await schema.createIndex('recorded_calls_of').on('recorded_calls').columns(['rollout_id', 'id']).execute()
}
