/**
 * Keys that are limited, usage by project, and the order in which projects and models take turns.
 *
 * Keys made before may do everything in their entity, as they could. Jobs made before belong to their model's project.
 */
import { type Kysely, sql } from 'kysely'

/** Adds columns, table and indexes, and fills the project of the jobs there are. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const keys = () => db.schema.alterTable('api_keys')
  await keys()
    .addColumn('name', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  await keys().addColumn('project', 'text').execute()
  await keys()
    .addColumn('scope', 'text', (c) => c.notNull().defaultTo('admin'))
    .execute()
  await keys().addColumn('expires_at_ms', 'bigint').execute()
  await keys().addColumn('last_used_at_ms', 'bigint').execute()

  const jobs = () => db.schema.alterTable('training_jobs')
  await jobs()
    .addColumn('project', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  await jobs().addColumn('usage_project', 'text').execute()
  await jobs().addColumn('claim_order', 'integer').execute()
  await sql`update training_jobs set project = coalesce((select project from models where id = training_jobs.model_id), '')`.execute(
    db,
  )
  await db.schema.alterTable('files').addColumn('project', 'text').execute()

  await db.schema
    .createTable('usage_days')
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('day', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('model', 'text', (c) => c.notNull())
    .addColumn('requests', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('prompt_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('cached_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('completion_tokens', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('training_ms', 'bigint', (c) => c.notNull().defaultTo(0))
    .addPrimaryKeyConstraint('usage_days_pk', ['entity', 'day', 'project', 'model'])
    .execute()

  const index = (table: string, columns: readonly string[]) =>
    db.schema
      .createIndex(`${table}_on_${columns.join('_')}`)
      .on(table)
      .columns([...columns])
      .execute()
  await index('api_keys', ['entity', 'id'])
  await index('training_jobs', ['entity', 'project', 'id'])
  await index('training_jobs', ['entity', 'project', 'claim_order'])
  await index('training_jobs', ['model_id', 'claim_order'])
  await index('training_jobs', ['claim_order'])
}
