/**
 * Files of requests that are answered behind all others.
 */
import { type Kysely, sql } from 'kysely'
import { createBlobTriggers } from '#service/storage/migrations/0014-blob-upkeep.js'

/** Pieces are joined to files and serve nothing else; the input is somebody's file. */
const BLOBS = [
  ['batches', 'input_sha256', 0],
  ['batch_pieces', 'output_sha256', 1],
  ['batch_pieces', 'error_sha256', 1],
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
  await db.schema
    .createTable('batches')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('usage_project', 'text')
    .addColumn('endpoint', 'text', (c) => c.notNull())
    .addColumn('input_file_id', 'text', (c) => c.notNull())
    .addColumn('input_sha256', 'text')
    .addColumn('metadata', 'text')
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('attempt', 'integer', (c) => c.notNull())
    .addColumn('total', 'integer', (c) => c.notNull())
    .addColumn('completed', 'integer', (c) => c.notNull())
    .addColumn('failed', 'integer', (c) => c.notNull())
    .addColumn('usage', 'text')
    .addColumn('errors', 'text')
    .addColumn('output_file_id', 'text')
    .addColumn('error_file_id', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('expires_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('in_progress_at_ms', 'bigint')
    .addColumn('finalizing_at_ms', 'bigint')
    .addColumn('cancelling_at_ms', 'bigint')
    .addColumn('ended_at_ms', 'bigint')
    .execute()
  await db.schema.createIndex('batches_of_entity').on('batches').columns(['entity', 'id']).execute()
  await db.schema.createIndex('batches_of_project').on('batches').columns(['entity', 'project', 'id']).execute()
  // what has not ended is looked for at every start: the index holds nothing else
  await db.schema
    .createIndex('batches_open')
    .on('batches')
    .columns(['entity', 'id'])
    .where(sql.ref('ended_at_ms'), 'is', null)
    .execute()
  await db.schema
    .createTable('batch_pieces')
    .addColumn('batch_id', 'text', (c) => c.notNull().references('batches.id').onDelete('cascade'))
    .addColumn('id', 'text', (c) => c.notNull())
    .addColumn('lines', 'text', (c) => c.notNull())
    .addColumn('output_sha256', 'text')
    .addColumn('error_sha256', 'text')
    .addPrimaryKeyConstraint('batch_pieces_key', ['batch_id', 'id'])
    .execute()
}
