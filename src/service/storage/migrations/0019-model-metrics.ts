/**
 * Metrics of a model by step in a table of their own, so that deleting a checkpoint leaves its point of the curve.
 *
 * What logs recorded at steps whose checkpoints are gone is had back from the splits' totals; what those steps' jobs recorded is lost.
 */
import { type Kysely, sql } from 'kysely'

/** Milliseconds since 1970 by the database's clock, SQLite's spelling. */
const NOW_MS = sql`(cast(unixepoch('subsec') * 1000 as integer))`

/** Creates the table, moves what checkpoints held into it and drops their columns. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('model_metrics')
    .addColumn('model_id', 'text', (c) => c.notNull().references('models.id').onDelete('cascade'))
    .addColumn('step', 'integer', (c) => c.notNull())
    .addColumn('source', 'text', (c) => c.notNull())
    .addColumn('metrics', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .addPrimaryKeyConstraint('model_metrics_pk', ['model_id', 'step', 'source'])
    .execute()
  await sql`insert into model_metrics (model_id, step, source, metrics, created_at_ms)
    select model_id, step, 'job', metrics, created_at_ms from checkpoints where metrics <> '{}'`.execute(db)
  const firstLog = sql`select min(logs.created_at_ms) from trajectory_logs as logs`
  await sql`insert into model_metrics (model_id, step, source, metrics, created_at_ms)
    select model_id, step, 'log', logged_metrics, coalesce(
      (${firstLog} where logs.model_id = checkpoints.model_id and logs.step = checkpoints.step), created_at_ms)
    from checkpoints where logged_metrics <> '{}'`.execute(db)
  // a total is [value, weight]; `->` keeps the number's own digits
  await sql`insert into model_metrics (model_id, step, source, metrics, created_at_ms)
    select totals.model_id, totals.step, 'log', json_group_object(each.key, json(each.value -> '$[0]')), coalesce(
      (${firstLog} where logs.model_id = totals.model_id and logs.step = totals.step), ${NOW_MS})
    from split_metrics as totals, json_each(totals.totals) as each
    where not exists (
      select 1 from checkpoints where checkpoints.model_id = totals.model_id and checkpoints.step = totals.step)
    group by totals.model_id, totals.step`.execute(db)
  for (const column of ['metrics', 'logged_metrics']) {
    await db.schema.alterTable('checkpoints').dropColumn(column).execute()
  }
}
