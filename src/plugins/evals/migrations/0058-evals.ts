/**
 * Evals, their runs, and what was said of each row of a run.
 */
import { type Kysely, sql } from 'kysely'

/** Creates the tables. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('evals')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('metadata', 'text')
    .addColumn('spec', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('eval_runs')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('eval_id', 'text', (c) => c.notNull().references('evals.id').onDelete('cascade'))
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text')
    .addColumn('key_id', 'text', (c) => c.notNull())
    .addColumn('usage_project', 'text')
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('metadata', 'text')
    .addColumn('source', 'text', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('attempt', 'integer', (c) => c.notNull())
    .addColumn('error', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .addColumn('ended_at_ms', 'bigint')
    .execute()
  await db.schema
    .createTable('eval_items')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('run_id', 'text', (c) => c.notNull().references('eval_runs.id').onDelete('cascade'))
    .addColumn('position', 'integer', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('item', 'text', (c) => c.notNull())
    .addColumn('result', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull())
    .execute()
  const indexes = [
    ['evals', ['entity', 'id']],
    ['evals', ['entity', 'project', 'id']],
    ['eval_runs', ['eval_id', 'id']],
    ['eval_items', ['run_id', 'status', 'id']],
    ['eval_items', ['run_id', 'id']],
  ] as const
  for (const [table, columns] of indexes) {
    await db.schema
      .createIndex(`${table}_on_${columns.join('_')}`)
      .on(table)
      .columns([...columns] as never[])
      .execute()
  }
  // what has not ended is looked for at every start: the index holds nothing else
  await db.schema
    .createIndex('eval_runs_open')
    .on('eval_runs')
    .columns(['entity', 'id'])
    .where(sql.ref('ended_at_ms'), 'is', null)
    .execute()
}
