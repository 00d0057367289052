/**
 * Tables of webhooks, as Kysely sees them.
 */
import type { Generated, Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface WebhooksTable {
  id: string
  entity: string
  /** The only project it hears of; null: all of the entity. */
  project: string | null
  url: string
  /** `whsec_` and base64: it signs, so it cannot be hashed. */
  secret: string
  /** JSON list of types of events. */
  events: string
  created_at_ms: Generated<number>
}

export interface WebhookDeliveriesTable {
  id: string
  webhook_id: string
  /** The event it tells of; the same for every delivery of it, so that a receiver can tell repetitions. */
  event_id: string
  event_type: string
  /** What is sent, byte for byte, however often. */
  body: string
  /** `pending`, `delivered`, `failed`. */
  status: string
  attempts: Generated<number>
  next_attempt_at_ms: number | null
  /** A server sends it until then; nobody else does. */
  claimed_until_ms: number | null
  last_status: number | null
  last_error: string | null
  created_at_ms: Generated<number>
  delivered_at_ms: number | null
}

/** An event of a job that a webhook may have to hear of; written with the event, gone with its deliveries. */
export interface WebhookEventsTable {
  event_id: string
  webhook_id: string
}

/** No interface: Kysely wants an index. */
export type WebhookTables = {
  webhooks: WebhooksTable
  webhook_deliveries: WebhookDeliveriesTable
  webhook_events: WebhookEventsTable
}

/** The same database, or open transaction, with these tables. */
export function webhookTables(db: Database): Kysely<Schema & WebhookTables> {
  return (db as Kysely<Schema>).withTables<WebhookTables>()
}
