/**
 * Counters instead of scans: events of a job, totals of a split's metrics, and the indexes that pages of lists need.
 *
 * Metrics logged before are pooled by trajectories here. What they overwrote on a checkpoint stays as it was: nothing tells it
 * apart any more.
 */
import { type Kysely, sql } from 'kysely'

/** Adds columns, table and indexes, and fills them from the rows there are. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const jobs = db.schema.alterTable('training_jobs')
  await jobs.addColumn('event_count', 'integer', (c) => c.notNull().defaultTo(0)).execute()
  await jobs.addColumn('gradient_step_count', 'integer', (c) => c.notNull().defaultTo(0)).execute()
  await jobs.addColumn('num_sequences', 'integer').execute()
  await sql`update training_jobs set
    event_count = (select count(*) from events where job_id = training_jobs.id),
    gradient_step_count = (select count(*) from events where job_id = training_jobs.id and type = 'gradient_step'),
    num_sequences = (select json_extract(data, '$.num_sequences') from events
      where job_id = training_jobs.id and type = 'training_started' order by position desc limit 1)`.execute(db)

  await db.schema
    .alterTable('checkpoints')
    .addColumn('logged_metrics', 'text', (c) => c.notNull().defaultTo('{}'))
    .execute()
  await db.schema
    .createTable('split_metrics')
    .addColumn('model_id', 'text', (c) => c.notNull().references('models.id').onDelete('cascade'))
    .addColumn('step', 'integer', (c) => c.notNull())
    .addColumn('split', 'text', (c) => c.notNull())
    .addColumn('totals', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('split_metrics_pk', ['model_id', 'step', 'split'])
    .execute()
  // a total is [value, weight]: a mean weighted by trajectories, or a count, whose weight is null
  await sql`insert into split_metrics (model_id, step, split, totals)
    select model_id, step, split, json_group_object(name, json(total)) from (
      select model_id, step, split, name, case
        when name like '%data/step!_num!_%' escape '!' then json_array(sum(value), null)
        else json_array(sum(1.0 * value * weight) / sum(weight), sum(weight)) end as total
      from (
        select model_id, step, split,
          case when each.key like 'data/step!_num!_%' escape '!' then split || '/' || each.key else each.key end as name, each.value as value, max(trajectory_count, 1) as weight
        from trajectory_logs, json_each(trajectory_logs.metrics) as each
        where each.type in ('integer', 'real'))
      group by model_id, step, split, name)
    group by model_id, step, split`.execute(db)

  const index = (table: string, columns: readonly string[]) =>
    db.schema
      .createIndex(`${table}_on_${columns.join('_')}`)
      .on(table)
      .columns([...columns])
      .execute()
  await index('models', ['entity', 'id'])
  await index('models', ['entity', 'project', 'id'])
  await index('models', ['entity', 'name', 'id'])
  await index('training_jobs', ['entity', 'id'])
  await index('training_jobs', ['entity', 'status', 'id'])
  await index('training_jobs', ['model_id', 'status', 'id'])
  await index('training_jobs', ['model_id', 'request_digest', 'id'])
  await index('idempotency_keys', ['object_id'])
}
