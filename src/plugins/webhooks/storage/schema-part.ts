/**
 * What the database holds of webhooks, what it does beside the core, and how it came to be.
 */
import type { Kysely } from 'kysely'
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import type { WebhookTables } from './tables.js'
import { moveWaits } from './waits.js'
import { noteForWebhooks, tellAnnouncement } from './webhook-events.js'

const tables: Readonly<Record<keyof WebhookTables, TableFacts>> = {
  webhooks: { isListedById: true },
  webhook_deliveries: { isListedById: true },
  webhook_events: {},
}

const FIRST_TABLES = `
create table webhooks (
  id text primary key, entity text not null, project text, url text not null, secret text not null,
  events text not null, created_at_ms bigint not null default now_ms
);
create index webhooks_of_entity on webhooks (entity, id);
create table webhook_deliveries (
  id text primary key, webhook_id text not null references webhooks on delete cascade, event_id text not null,
  event_type text not null, body text not null, status text not null, attempts integer not null default 0,
  next_attempt_at_ms bigint, last_status integer, last_error text, created_at_ms bigint not null default now_ms,
  delivered_at_ms bigint
);
create index webhook_deliveries_of on webhook_deliveries (webhook_id, id);
create index webhook_deliveries_due_of on webhook_deliveries (webhook_id, status, next_attempt_at_ms);
create table webhook_cursor (
  name text primary key, event_id text not null
);
`

async function indexLists(db: Kysely<unknown>): Promise<void> {
  await db.schema.createIndex('webhooks_of_entity').on('webhooks').columns(['entity', 'id']).execute()
}

export const webhookSchema: SchemaPart = {
  tables,
  migrations: {
    '0010-webhooks': { up: async (db) => (await import('../migrations/0010-webhooks.js')).up(db) },
    '0011-list-indexes': { up: indexLists },
    '0017-delivery-turns': { up: async (db) => (await import('../migrations/0017-delivery-turns.js')).up(db) },
    '0039-several-servers': { up: async (db) => (await import('../migrations/0039-several-servers.js')).up(db) },
  },
  postgresMigrations: {},
  firstTables: { statements: FIRST_TABLES },
  noteEvent: noteForWebhooks,
  announce: tellAnnouncement,
  moveWaits,
}
