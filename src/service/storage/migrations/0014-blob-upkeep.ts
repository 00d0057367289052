/**
 * What a database must know before a blob may be deleted in its name: which directory it belongs to, when a server worked with it, and
 * which blobs it has let go.
 */
import { type Kysely, sql } from 'kysely'

/** A column that names blobs; whether what it names serves one job only and is of no use after it. */
export type BlobColumn = readonly [table: string, column: string, isTransient: 0 | 1]

const COLUMNS: readonly BlobColumn[] = [
  ['checkpoint_files', 'sha256', 0],
  ['job_files', 'sha256', 1],
  ['resume_points', 'sha256', 1],
  ['files', 'sha256', 0],
  ['trajectory_logs', 'body_sha256', 0],
  ['training_jobs', 'input_sha256', 1],
  ['training_jobs', 'validation_sha256', 1],
]

/** Adds the tables, and triggers that note a digest when a row lets it go, also in a cascade; another row may name it still. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('database_identity')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('mark', 'integer', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('server_runs')
    .addColumn('id', 'integer', (c) => c.primaryKey())
    .addColumn('started_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('seen_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('unnamed_blobs')
    .addColumn('sha256', 'text', (c) => c.primaryKey())
    .addColumn('known_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('seen_at_ms', 'bigint')
    .addColumn('is_transient', 'integer', (c) => c.notNull())
    .execute()
  await createBlobTriggers(db, COLUMNS)
}

/** Notes the digests that rows of these columns let go. */
export async function createBlobTriggers(db: Kysely<unknown>, columns: readonly BlobColumn[]): Promise<void> {
  for (const [table, column, isTransient] of columns) {
    const note = `insert into unnamed_blobs (sha256, known_at_ms, seen_at_ms, is_transient)
      values (old.${column}, cast(unixepoch('subsec') * 1000 as integer), null, ${isTransient})
      on conflict (sha256) do update set known_at_ms = excluded.known_at_ms, seen_at_ms = null,
        is_transient = min(is_transient, excluded.is_transient);`
    await sql
      .raw(
        `create trigger ${table}_${column}_dropped after delete on ${table}
    when old.${column} is not null begin
      ${note}
    end`,
      )
      .execute(db)
    await sql
      .raw(
        `create trigger ${table}_${column}_changed after update of ${column} on ${table}
    when old.${column} is not null and new.${column} is not old.${column} begin
      ${note}
    end`,
      )
      .execute(db)
  }
}
