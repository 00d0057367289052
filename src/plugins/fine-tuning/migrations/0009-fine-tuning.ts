/**
 * Jobs of OpenAI's fine-tuning API: what it knows of a training job beside the job itself.
 */
import { type Kysely, sql } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('fine_tuning_jobs')
    .addColumn('job_id', 'text', (c) => c.primaryKey().references('training_jobs.id').onDelete('cascade'))
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('request_digest', 'text', (c) => c.notNull())
    .addColumn('request', 'text', (c) => c.notNull())
    .addColumn('trained_name', 'text', (c) => c.notNull())
    .addColumn('hyperparameters', 'text', (c) => c.notNull())
    .addColumn('trained_tokens', 'integer')
    .addColumn('created_at_ms', 'bigint', (c) =>
      c.notNull().defaultTo(sql`(cast(unixepoch('subsec') * 1000 as integer))`),
    )
    .execute()
  await db.schema
    .createIndex('fine_tuning_jobs_of_entity')
    .on('fine_tuning_jobs')
    .columns(['entity', 'job_id'])
    .execute()
}
