/**
 * Which webhooks may have to hear of an event: written in the transaction that stores the event, so that none is told twice or forgotten,
 * whichever server stored it and whatever its clock says, and gone in the transaction that makes the deliveries.
 */
import { sql } from 'kysely'
import { systemIds, timeOfId } from '#base/util/ids.js'
import type { Database } from '#service/storage/database.js'
import type { Announcement } from '#service/storage/schema-part.js'
import { webhookTables } from './tables.js'

export interface TailEvent {
  readonly id: string
  readonly jobId: string
  readonly type: string
  readonly data: string
  readonly createdAtMs: number
  /** Those that were there when it was stored, of its project. */
  readonly webhookIds: readonly string[]
}

/** An event of a job was stored: call in its transaction. */
export async function noteForWebhooks(db: Database, eventId: string, jobId: string): Promise<void> {
  await sql`insert into webhook_events (event_id, webhook_id)
    select cast(${eventId} as text), webhooks.id from webhooks join training_jobs as job on job.entity = webhooks.entity
    where job.id = ${jobId} and (webhooks.project is null or webhooks.project = job.project)`.execute(db)
}

export async function countWebhooks(db: Database): Promise<number> {
  const row = await webhookTables(db)
    .selectFrom('webhooks')
    .select((e) => e.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

export async function hasWebhookEvents(db: Database): Promise<boolean> {
  return (
    (await webhookTables(db).selectFrom('webhook_events').select('event_id').limit(1).executeTakeFirst()) !== undefined
  )
}

/** Events that webhooks wait for, oldest first; call `forgetWebhookEvent` of each in the same transaction. */
export async function listWebhookEvents(db: Database, limit: number): Promise<readonly TailEvent[]> {
  const rows = await webhookTables(db)
    .selectFrom('webhook_events as told')
    .innerJoin('events', 'events.id', 'told.event_id')
    .select(['events.id', 'events.job_id', 'events.type', 'events.data', 'events.created_at_ms', 'told.webhook_id'])
    .orderBy('told.event_id')
    .limit(limit)
    .execute()
  const found = new Map<string, TailEvent & { readonly webhookIds: string[] }>()
  for (const row of rows) {
    const { id, job_id: jobId, type, data, created_at_ms: createdAtMs } = row
    const event = found.get(id) ?? { id, jobId, type, data, createdAtMs, webhookIds: [] }
    event.webhookIds.push(row.webhook_id)
    found.set(id, event)
  }
  return [...found.values()]
}

/** Of some webhooks; the others still wait for the event. */
export async function forgetWebhookEvent(db: Database, { id, webhookIds }: TailEvent): Promise<void> {
  await webhookTables(db)
    .deleteFrom('webhook_events')
    .where('event_id', '=', id)
    .where('webhook_id', 'in', webhookIds)
    .execute()
}

/** Of events that are gone, which `listWebhookEvents` never lists. */
export async function forgetLostWebhookEvents(db: Database): Promise<void> {
  await webhookTables(db)
    .deleteFrom('webhook_events')
    .where((e) =>
      e.not(e.exists(e.selectFrom('events').select('events.id').whereRef('events.id', '=', 'webhook_events.event_id'))),
    )
    .execute()
}

/**
 * What plugins announce becomes deliveries at once, in the transaction in which it ended: nothing more is to be looked up. The
 * body is that of OpenAI's webhooks.
 */
export async function tellAnnouncement(db: Database, announcement: Announcement): Promise<void> {
  const { type, id } = announcement
  if ((await countWebhooks(db)) === 0) return
  const { insertDelivery, listListeners } = await import('./webhooks.js')
  const listeners = await listListeners(db, announcement, type)
  if (listeners.length === 0) return
  const eventId = `evt_${announcement.eventId}_${type.replaceAll('.', '_')}`
  const createdAt = Math.floor((timeOfId(announcement.eventId) ?? 0) / 1000)
  const body = JSON.stringify({ id: eventId, object: 'event', type, created_at: createdAt, data: { id } })
  for (const webhook of listeners) {
    await insertDelivery(db, { id: systemIds.uuid(), webhookId: webhook.id, eventId, eventType: type, body })
  }
}
