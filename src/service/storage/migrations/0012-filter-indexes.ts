/**
 * Indexes for lists with a filter: a filter that few rows pass, or none, was tried on every row of the entity, model or project.
 */
import type { Kysely } from 'kysely'

/** Adds the indexes. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const index = (table: string, columns: readonly string[]) =>
    db.schema
      .createIndex(`${table}_on_${columns.join('_')}`)
      .on(table)
      .columns([...columns])
      .execute()
  await index('models', ['entity', 'base_model', 'id'])
  await index('models', ['entity', 'project', 'base_model', 'id'])
  await index('training_jobs', ['entity', 'project', 'status', 'id'])
  await index('trajectory_logs', ['model_id', 'step', 'id'])
  await index('trajectory_logs', ['model_id', 'split', 'step', 'id'])
  await index('trajectory_logs', ['model_id', 'body_sha256', 'id'])
  await index('files', ['entity', 'purpose', 'id'])
  await index('files', ['entity', 'project', 'purpose', 'id'])
  // what the longer ones hold too
  await db.schema.dropIndex('trajectory_logs_by_model').execute()
}
