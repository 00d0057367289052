/**
 * Indexes for pages of logged trajectory groups: of a model, and of one of its splits.
 */
import type { Kysely } from 'kysely'

/** Adds the indexes. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const index = (columns: readonly string[]) =>
    db.schema
      .createIndex(`trajectory_logs_on_${columns.join('_')}`)
      .on('trajectory_logs')
      .columns([...columns])
      .execute()
  await index(['model_id', 'id'])
  await index(['model_id', 'split', 'id'])
}
