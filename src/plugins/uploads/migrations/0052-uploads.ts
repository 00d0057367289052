/**
 * Files that come in parts.
 */
import { type Kysely, sql } from 'kysely'
import { createBlobTriggers } from '#service/storage/migrations/0014-blob-upkeep.js'

/** Adds the tables, and triggers that note the blobs of parts that go. */
export async function sqlite(db: Kysely<unknown>): Promise<void> {
  await createTables(db)
  await createBlobTriggers(db, [['upload_parts', 'sha256', 1]])
}

/** The same with PostgreSQL's triggers, which call a function of the core's. */
export async function postgres(db: Kysely<unknown>): Promise<void> {
  await createTables(db)
  const run = "for each row execute function note_dropped_blob('sha256', '1')"
  await sql.raw(`create trigger upload_parts_sha256_dropped after delete on upload_parts ${run}`).execute(db)
  await sql.raw(`create trigger upload_parts_sha256_changed after update of sha256 on upload_parts ${run}`).execute(db)
}

async function createTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('uploads')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('filename', 'text', (c) => c.notNull())
    .addColumn('purpose', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('file_id', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('expires_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('uploads_of_entity').on('uploads').columns(['entity', 'status']).execute()
  await db.schema.createIndex('uploads_by_end').on('uploads').column('expires_at_ms').execute()
  await db.schema
    .createTable('upload_parts')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('upload_id', 'text', (c) => c.notNull().references('uploads.id').onDelete('cascade'))
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('upload_parts_of').on('upload_parts').column('upload_id').execute()
}
