/**
 * Loops: training that the server goes through step by step, what happened in each, and grades that were paid for.
 */
import { type Kysely, sql } from 'kysely'

/** Milliseconds since 1970 by the database's clock, SQLite's spelling. */
const NOW_MS = sql`(cast(unixepoch('subsec') * 1000 as integer))`

/** Creates the tables. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('loops')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('key_id', 'text')
    .addColumn('model_id', 'text', (c) => c.notNull())
    .addColumn('spec', 'text', (c) => c.notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('phase', 'text')
    .addColumn('step', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('base_step', 'integer')
    .addColumn('job_id', 'text')
    .addColumn('progress', 'text', (c) => c.notNull())
    .addColumn('spent', 'text', (c) => c.notNull())
    .addColumn('evaluations', 'text', (c) => c.notNull())
    .addColumn('is_pause_asked', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('attempt', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('losses', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('lease_until_ms', 'bigint')
    .addColumn('not_before_ms', 'bigint')
    .addColumn('session_id', 'text')
    .addColumn('error_code', 'text')
    .addColumn('error_message', 'text')
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .addColumn('started_at_ms', 'bigint')
    .addColumn('ended_at_ms', 'bigint')
    .execute()
  await db.schema.createIndex('loops_of_entity').on('loops').columns(['entity', 'id']).execute()
  await db.schema.createIndex('loops_of_model').on('loops').columns(['model_id']).execute()
  // what is due is looked for every second: the index holds nothing else
  await db.schema
    .createIndex('loops_at_work')
    .on('loops')
    .columns(['id'])
    .where(sql.ref('status'), 'in', sql`('queued', 'running')`)
    .execute()
  await db.schema
    .createTable('loop_events')
    .addColumn('id', 'text', (c) => c.primaryKey())
    .addColumn('loop_id', 'text', (c) => c.notNull().references('loops.id').onDelete('cascade'))
    .addColumn('type', 'text', (c) => c.notNull())
    .addColumn('level', 'text', (c) => c.notNull())
    .addColumn('message', 'text', (c) => c.notNull())
    .addColumn('data', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .execute()
  await db.schema.createIndex('loop_events_of').on('loop_events').columns(['loop_id', 'id']).execute()
  await db.schema
    .createTable('loop_grades')
    .addColumn('digest', 'text', (c) => c.primaryKey())
    .addColumn('graded', 'text', (c) => c.notNull())
    .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(NOW_MS))
    .execute()
  await db.schema.createIndex('loop_grades_by_age').on('loop_grades').columns(['created_at_ms']).execute()
}
