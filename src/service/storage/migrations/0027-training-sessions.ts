/**
 * Training sessions: their requests in order, their stored state, what is saved of them, and the clients and samplers they belong to.
 */
import { type Kysely, sql } from 'kysely'

/** Columns that name blobs; whether what they name serves one session only. */
const BLOB_COLUMNS: readonly (readonly [table: string, isTransient: 0 | 1])[] = [
  ['session_files', 1],
  ['session_weight_files', 1],
]

const NOW = sql`(cast(unixepoch('subsec') * 1000 as integer))`

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('client_sessions')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('tags', 'text', (c) => c.notNull())
    .addColumn('user_metadata', 'text', (c) => c.notNull())
    .addColumn('sdk_version', 'text', (c) => c.notNull())
    .addColumn('display_name', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW))
    .addColumn('seen_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('ended_at_ms', 'bigint')
    .execute()
  await db.schema
    .createTable('training_sessions')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('client_session_id', 'text', (c) => c.notNull().references('client_sessions.id').onDelete('cascade'))
    .addColumn('base_model', 'text', (c) => c.notNull())
    .addColumn('rank', 'integer', (c) => c.notNull())
    .addColumn('alpha', 'real', (c) => c.notNull())
    .addColumn('seed', 'text', (c) => c.notNull())
    .addColumn('trains_mlp', 'integer', (c) => c.notNull())
    .addColumn('trains_attention', 'integer', (c) => c.notNull())
    .addColumn('user_metadata', 'text', (c) => c.notNull())
    .addColumn('error', 'text')
    .addColumn('attempt', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('next_seq', 'integer', (c) => c.notNull().defaultTo(1))
    .addColumn('state_seq', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('step_count', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('model_id', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW))
    .addColumn('used_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema
    .createIndex('training_sessions_by_entity')
    .on('training_sessions')
    .columns(['entity', 'created_at_ms'])
    .execute()
  await db.schema
    .createTable('session_requests')
    .addColumn('session_id', 'text', (c) => c.notNull().references('training_sessions.id').onDelete('cascade'))
    .addColumn('seq', 'integer', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('detail', 'text', (c) => c.notNull())
    .addColumn('body', 'blob')
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('result', 'text')
    .addColumn('output', 'blob')
    .addColumn('error', 'text')
    .addColumn('is_user_error', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('losses', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW))
    .addColumn('ended_at_ms', 'bigint')
    .addPrimaryKeyConstraint('session_requests_key', ['session_id', 'seq'])
    .execute()
  await sql`create index session_requests_waiting on session_requests (session_id, seq) where status = 'waiting'`.execute(
    db,
  )
  await db.schema
    .createTable('session_files')
    .addColumn('session_id', 'text', (c) => c.notNull().references('training_sessions.id').onDelete('cascade'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('session_files_key', ['session_id', 'name'])
    .execute()
  await db.schema
    .createTable('session_weights')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('session_id', 'text', (c) => c.notNull().references('training_sessions.id').onDelete('cascade'))
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('name', 'text')
    .addColumn('step', 'integer')
    .addColumn('user_metadata', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW))
    .addColumn('expires_at_ms', 'bigint')
    .addUniqueConstraint('session_weights_by_name', ['session_id', 'kind', 'name'])
    .execute()
  await db.schema
    .createTable('session_weight_files')
    .addColumn('weights_id', 'text', (c) => c.notNull().references('session_weights.id').onDelete('cascade'))
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('session_weight_files_key', ['weights_id', 'name'])
    .execute()
  await db.schema
    .createTable('samplers')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('client_session_id', 'text', (c) => c.notNull().references('client_sessions.id').onDelete('cascade'))
    .addColumn('base_model', 'text', (c) => c.notNull())
    .addColumn('weights_id', 'text')
    .addColumn('model_path', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW))
    .execute()
  for (const [table, isTransient] of BLOB_COLUMNS) await noteDropped(db, table, isTransient)
}

/** As `0014-blob-upkeep.ts` has it for the columns before. */
async function noteDropped(db: Kysely<unknown>, table: string, isTransient: 0 | 1): Promise<void> {
  const note = `insert into unnamed_blobs (sha256, known_at_ms, seen_at_ms, is_transient)
    values (old.sha256, cast(unixepoch('subsec') * 1000 as integer), null, ${isTransient})
    on conflict (sha256) do update set known_at_ms = excluded.known_at_ms, seen_at_ms = null,
      is_transient = min(is_transient, excluded.is_transient);`
  await sql.raw(`create trigger ${table}_sha256_dropped after delete on ${table} begin ${note} end`).execute(db)
  await sql
    .raw(
      `create trigger ${table}_sha256_changed after update of sha256 on ${table}
      when new.sha256 is not old.sha256 begin ${note} end`,
    )
    .execute(db)
}
