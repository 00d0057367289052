/**
 * What several servers on one database must know of webhooks: who sends a delivery, and which webhooks are to hear of an event.
 * That is written with the event, in place of a cursor over ids that two clocks make.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('webhook_deliveries').addColumn('claimed_until_ms', 'bigint').execute()
  await db.schema.dropIndex('webhook_deliveries_due_of').execute()
  await db.schema
    .createIndex('webhook_deliveries_due_of')
    .on('webhook_deliveries')
    .columns(['webhook_id', 'status', 'next_attempt_at_ms', 'claimed_until_ms'])
    .execute()
  await db.schema
    .createTable('webhook_events')
    .addColumn('event_id', 'text', (c) => c.notNull())
    .addColumn('webhook_id', 'text', (c) => c.notNull().references('webhooks.id').onDelete('cascade'))
    .addPrimaryKeyConstraint('webhook_events_key', ['event_id', 'webhook_id'] as never[])
    .execute()
  // what the cursor had not reached yet
  await sql`insert into webhook_events (event_id, webhook_id)
    select events.id, webhooks.id from events
      join training_jobs on training_jobs.id = events.job_id
      join webhooks on webhooks.entity = training_jobs.entity
        and (webhooks.project is null or webhooks.project = training_jobs.project) and webhooks.id <= events.id
      join webhook_cursor on webhook_cursor.name = 'events' and events.id > webhook_cursor.event_id
    where events.type <> 'gradient_step'`.execute(db)
  await db.schema.dropTable('webhook_cursor').execute()
}
