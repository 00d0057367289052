/**
 * Rows of webhooks and of their deliveries. Of several servers one at a time sends a delivery: who claims it.
 */
import type { ExpressionBuilder, Selectable } from 'kysely'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from '#service/storage/paging.js'
import { storableText } from '#service/storage/row-values.js'
import type { Schema } from '#service/storage/schema.js'
import { type WebhookDeliveriesTable, type WebhooksTable, type WebhookTables, webhookTables } from './tables.js'

export interface WebhookRecord {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly url: string
  readonly secret: string
  readonly events: readonly string[]
  readonly createdAtMs: number
}

export interface DeliveryRecord {
  readonly id: string
  readonly webhookId: string
  readonly eventId: string
  readonly eventType: string
  readonly body: string
  readonly status: string
  readonly attempts: number
  readonly nextAttemptAtMs: number | null
  readonly lastStatus: number | null
  readonly lastError: string | null
  readonly createdAtMs: number
  readonly deliveredAtMs: number | null
}

interface Owner {
  readonly entity: string
  readonly project: string | null
}

export async function insertWebhook(db: Database, webhook: Omit<WebhookRecord, 'createdAtMs'>): Promise<void> {
  await webhookTables(db)
    .insertInto('webhooks')
    .values({ ...webhook, events: JSON.stringify(webhook.events), created_at_ms: databaseNowMs })
    .execute()
}

export async function findWebhook(db: Database, id: string): Promise<WebhookRecord | null> {
  const row = await webhookTables(db).selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toWebhook(row)
}

/** Oldest first. */
export async function listWebhooks(db: Database, owner: Owner, options: PageOptions): Promise<Page<WebhookRecord>> {
  let query = webhookTables(db).selectFrom('webhooks').selectAll().where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  if (options.after !== undefined) {
    const cursor = await query.where('id', '=', options.after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(options.after)
    query = query.where('id', '>', options.after)
  }
  const rows = await query
    .orderBy('id')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toWebhook)
}

export async function deleteWebhookRow(db: Database, id: string): Promise<void> {
  await webhookTables(db).deleteFrom('webhooks').where('id', '=', id).execute()
}

/** Webhooks that hear of a type of event in a project. */
export async function listListeners(
  db: Database,
  thing: { readonly entity: string; readonly project: string | null },
  type: string,
): Promise<readonly WebhookRecord[]> {
  const rows = await webhookTables(db)
    .selectFrom('webhooks')
    .selectAll()
    .where('entity', '=', thing.entity)
    .where((where) => where.or([where('project', 'is', null), where('project', '=', thing.project ?? '')]))
    .execute()
  return rows.map(toWebhook).filter((webhook) => webhook.events.includes(type))
}

/** Adds a pending delivery, due at once. */
export async function insertDelivery(
  db: Database,
  delivery: Pick<DeliveryRecord, 'id' | 'webhookId' | 'eventId' | 'eventType' | 'body'>,
): Promise<void> {
  await webhookTables(db)
    .insertInto('webhook_deliveries')
    .values({
      id: delivery.id,
      webhook_id: delivery.webhookId,
      event_id: delivery.eventId,
      event_type: delivery.eventType,
      body: delivery.body,
      status: 'pending',
      next_attempt_at_ms: databaseNowMs,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** Webhooks of which a delivery's time has come, the one that waits longest first. */
export async function listDueWebhooks(
  db: Database,
): Promise<readonly { readonly id: string; readonly entity: string }[]> {
  const oldest = webhookTables(db)
    .selectFrom('webhooks')
    .select((e) => [
      'id',
      'entity',
      e
        .selectFrom('webhook_deliveries')
        .select((d) => d.fn.min('next_attempt_at_ms').as('at'))
        .whereRef('webhook_id', '=', 'webhooks.id')
        .where('status', '=', 'pending')
        .where(isFree)
        .as('due_at_ms'),
    ])
  return await webhookTables(db)
    .selectFrom(oldest.as('oldest'))
    .select(['id', 'entity'])
    .where('due_at_ms', '<=', databaseNowMs)
    .orderBy('due_at_ms')
    .execute()
}

/** A pending delivery that no server sends. */
const isFree = (e: ExpressionBuilder<Schema & WebhookTables, 'webhook_deliveries'>) =>
  e.or([e('claimed_until_ms', 'is', null), e('claimed_until_ms', '<=', databaseNowMs)])

/**
 * Takes a due delivery for one server, which has so long to send it.
 *
 * @returns false when another has it, or had it since it was listed
 */
export async function claimDelivery(
  db: Database,
  { id, attempts }: Pick<DeliveryRecord, 'id' | 'attempts'>,
  leaseMs: number,
): Promise<boolean> {
  const result = await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set((e) => ({ claimed_until_ms: e(databaseNowMs, '+', leaseMs) }))
    .where('id', '=', id)
    .where('attempts', '=', attempts)
    .where('status', '=', 'pending')
    .where(isFree)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** What an earlier process was sending is sent anew: for a server that is alone with its database. */
export async function freeDeliveries(db: Database): Promise<void> {
  await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set({ claimed_until_ms: null })
    .where('claimed_until_ms', 'is not', null)
    .execute()
}

/** Pending deliveries of a webhook whose time has come, oldest first. */
export async function listDue(db: Database, webhookId: string, limit: number): Promise<readonly DeliveryRecord[]> {
  const rows = await webhookTables(db)
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', webhookId)
    .where('status', '=', 'pending')
    .where('next_attempt_at_ms', '<=', databaseNowMs)
    .where(isFree)
    .orderBy('next_attempt_at_ms')
    .limit(limit)
    .execute()
  return rows.map(toDelivery)
}

/**
 * Notes how an attempt ended, unless another server has noted one meanwhile: whose claim ran out must not undo what that one found.
 *
 * @param attempts of the delivery when it was claimed
 * @param outcome.retryMs time to the next one; null: there is none
 */
export async function setAttempt(
  db: Database,
  { id, attempts }: Pick<DeliveryRecord, 'id' | 'attempts'>,
  outcome: {
    readonly isDelivered: boolean
    readonly status: number | null
    readonly error: string | null
    readonly retryMs: number | null
  },
): Promise<void> {
  const next = outcome.isDelivered ? 'delivered' : outcome.retryMs === null ? 'failed' : 'pending'
  await webhookTables(db)
    .updateTable('webhook_deliveries')
    .set((e) => ({
      attempts: e('attempts', '+', 1),
      claimed_until_ms: null,
      status: next,
      last_status: outcome.status,
      last_error: storableText(outcome.error),
      next_attempt_at_ms:
        outcome.retryMs === null || outcome.isDelivered ? null : e(databaseNowMs, '+', outcome.retryMs),
      ...(outcome.isDelivered ? { delivered_at_ms: databaseNowMs } : {}),
    }))
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .where('attempts', '=', attempts)
    .execute()
}

/** Newest first. */
export async function listDeliveries(
  db: Database,
  webhookId: string,
  options: PageOptions,
): Promise<Page<DeliveryRecord>> {
  let query = webhookTables(db).selectFrom('webhook_deliveries').selectAll().where('webhook_id', '=', webhookId)
  if (options.after !== undefined) {
    const cursor = await query.where('id', '=', options.after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(options.after)
    query = query.where('id', '<', options.after)
  }
  const rows = await query
    .orderBy('id', 'desc')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toDelivery)
}

export async function findDelivery(db: Database, webhookId: string, id: string): Promise<DeliveryRecord | null> {
  const row = await webhookTables(db)
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', webhookId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row === undefined ? null : toDelivery(row)
}

/** Deletes deliveries that ended more than `ageMs` ago. */
export async function deleteOldDeliveries(db: Database, ageMs: number): Promise<void> {
  await webhookTables(db)
    .deleteFrom('webhook_deliveries')
    .where('status', '!=', 'pending')
    .where((where) => where('created_at_ms', '<', where(databaseNowMs, '-', ageMs)))
    .execute()
}

function toWebhook(row: Selectable<WebhooksTable>): WebhookRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    url: row.url,
    secret: row.secret,
    events: JSON.parse(row.events) as string[],
    createdAtMs: row.created_at_ms,
  }
}

function toDelivery(row: Selectable<WebhookDeliveriesTable>): DeliveryRecord {
  return {
    id: row.id,
    webhookId: row.webhook_id,
    eventId: row.event_id,
    eventType: row.event_type,
    body: row.body,
    status: row.status,
    attempts: row.attempts,
    nextAttemptAtMs: row.next_attempt_at_ms,
    lastStatus: row.last_status,
    lastError: row.last_error,
    createdAtMs: row.created_at_ms,
    deliveredAtMs: row.delivered_at_ms,
  }
}
