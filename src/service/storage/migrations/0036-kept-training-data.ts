/**
 * What a job trained on, kept past its end: its rows, and what its trainer noted of every token.
 */
import { type Kysely, sql } from 'kysely'

const COLUMNS = ['data_sha256', 'rollouts_sha256'] as const

/** Adds the table, and triggers as `0014-blob-upkeep.ts` has them; what jobs of before trained on is gone. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTable(db)
  await createTriggers(db)
}

/** What both databases are told in the same words. */
export async function createTable(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('kept_training_data')
    .addColumn('job_id', 'text', (c) => c.primaryKey())
    .addColumn('model_id', 'text', (c) => c.notNull())
    .addColumn('data_sha256', 'text', (c) => c.notNull())
    .addColumn('data_bytes', 'bigint')
    .addColumn('rollouts_sha256', 'text')
    .addColumn('rollouts_bytes', 'bigint')
    .addColumn('group_count', 'integer')
    .addColumn('trajectory_count', 'integer')
    .execute()
  await db.schema.createIndex('kept_training_data_by_model').on('kept_training_data').column('model_id').execute()
}

async function createTriggers(db: Kysely<unknown>): Promise<void> {
  for (const column of COLUMNS) {
    const note = `insert into unnamed_blobs (sha256, known_at_ms, seen_at_ms, is_transient)
      values (old.${column}, cast(unixepoch('subsec') * 1000 as integer), null, 1)
      on conflict (sha256) do update set known_at_ms = excluded.known_at_ms, seen_at_ms = null,
        is_transient = min(is_transient, excluded.is_transient);`
    await sql
      .raw(
        `create trigger kept_training_data_${column}_dropped after delete on kept_training_data
        when old.${column} is not null begin ${note} end`,
      )
      .execute(db)
    await sql
      .raw(
        `create trigger kept_training_data_${column}_changed after update of ${column} on kept_training_data
        when old.${column} is not null and new.${column} is not old.${column} begin ${note} end`,
      )
      .execute(db)
  }
}
