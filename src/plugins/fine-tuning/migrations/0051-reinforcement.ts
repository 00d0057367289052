/**
 * Reinforcement jobs of OpenAI's fine-tuning API: what it knows of a loop beside the loop itself.
 */
import type { Kysely } from 'kysely'

/** Adds the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('fine_tuning_loops')
    .addColumn('loop_id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('request_digest', 'text', (c) => c.notNull())
    .addColumn('request', 'text', (c) => c.notNull())
    .addColumn('trained_name', 'text', (c) => c.notNull())
    .addColumn('hyperparameters', 'text', (c) => c.notNull())
    .addColumn('notes', 'text', (c) => c.notNull())
    .addColumn('result_file_id', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  for (const columns of [['entity'], ['entity', 'project']]) {
    await db.schema
      .createIndex(`fine_tuning_loops_on_${columns.join('_')}`)
      .on('fine_tuning_loops')
      .columns([...columns, 'loop_id'] as never[])
      .execute()
  }
}
