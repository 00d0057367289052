/**
 * Where a running job goes on when it loses its worker: one point per job, replaced by the next.
 */
import { type Kysely, sql } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('resume_points')
    .addColumn('job_id', 'text', (c) => c.primaryKey().references('training_jobs.id').onDelete('cascade'))
    .addColumn('parent_step', 'integer', (c) => c.notNull())
    .addColumn('event_count', 'integer', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) =>
      c.notNull().defaultTo(sql`(cast(unixepoch('subsec') * 1000 as integer))`),
    )
    .execute()
}
