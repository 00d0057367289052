/**
 * Creating, listing and deleting webhooks; their log of deliveries, and sending one again.
 */

import { randomBytes } from 'node:crypto'
import { AppError, NotFoundError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, type PageQuery, toList } from '#contract/wire/list.js'
import {
  type DeliveryType,
  TEST_EVENT,
  WEBHOOK_EVENTS,
  type WebhookEvent,
} from '#contract/wire/webhooks/webhook-words.js'
import type {
  CreatedWebhook,
  CreateWebhookRequest,
  DeletedWebhook,
  ListWebhooksQuery,
  Webhook,
  WebhookDelivery,
} from '#contract/wire/webhooks/webhooks.js'
import { checkName } from '#service/operations/access/names.js'
import type { Principal } from '#service/operations/access/principal.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { checkProject, ownerOf } from '#service/operations/access/tenant.js'
import type { AddressRules } from '#service/operations/address-rules.js'
import type { ServiceContext } from '#service/operations/context.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { Outbox } from './outbox.js'
import {
  type DeliveryRecord,
  deleteWebhookRow,
  findDelivery,
  findWebhook,
  insertDelivery,
  insertWebhook,
  listDeliveries,
  listWebhooks,
  type WebhookRecord,
} from './storage/webhooks.js'

interface WebhookService {
  /** A repeated key answers with the webhook it made, and its secret. @throws {ConflictError} `idempotency_key_reused` */
  create(principal: Principal, request: CreateWebhookRequest, idempotencyKey: string | null): Promise<CreatedWebhook>
  /** @throws {AppError} `forbidden` for a project that is not the key's own */
  list(principal: Principal, query: ListWebhooksQuery): Promise<List<Webhook>>
  get(principal: Principal, id: string): Promise<Webhook>
  delete(principal: Principal, id: string): Promise<DeletedWebhook>
  /** Newest first. */
  deliveries(principal: Principal, id: string, query: PageQuery): Promise<List<WebhookDelivery>>
  /** A new delivery of the same message. */
  redeliver(principal: Principal, id: string, deliveryId: string): Promise<WebhookDelivery>
  /** A message about the webhook itself, on its way like any other. */
  test(principal: Principal, id: string): Promise<WebhookDelivery>
}

/** Webhooks of one entity: each event is stored once for every one of them. */
const MAX_WEBHOOKS = 100

export function createWebhookService(
  context: Pick<ServiceContext, 'db' | 'ids' | 'clock'>,
  { rules, outbox }: { readonly rules: AddressRules; readonly outbox: Pick<Outbox, 'wake'> },
): WebhookService {
  const { db, ids, clock } = context

  async function requireWebhook(principal: Principal, id: string): Promise<WebhookRecord> {
    const webhook = await findWebhook(db, id)
    const isOwn =
      webhook?.entity === principal.entity && (principal.project === null || webhook.project === principal.project)
    if (webhook !== null && isOwn) return webhook
    throw new NotFoundError('webhook_not_found', `webhook "${id.slice(0, 100)}" was not found`)
  }

  /** Stores a message and has it sent soon. */
  async function enqueue(message: Parameters<typeof insertDelivery>[1]): Promise<WebhookDelivery> {
    await insertDelivery(db, message)
    const delivery = await findDelivery(db, message.webhookId, message.id)
    if (delivery === null) throw new NotFoundError('webhook_not_found', 'the webhook was deleted')
    outbox.wake()
    return toWireDelivery(delivery)
  }

  return {
    create: async (principal, request, idempotencyKey) => {
      const url = rules.check(request.url).href
      const project = checkProject(principal, request.project ?? undefined) ?? null
      if (project !== null) checkName('project', project)
      const secret = `whsec_${randomBytes(32).toString('base64')}`
      const events = request.events ?? WEBHOOK_EVENTS
      const key =
        idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'webhooks' as const, key: idempotencyKey }
      const digest = digestOf([url, project, events])
      const id = await inTransaction(db, async (transaction) => {
        const before = key === null ? null : await findIdempotent(transaction, key, digest)
        if (before !== null) return before
        const made = ids.uuid()
        const own = await listWebhooks(
          transaction,
          { entity: principal.entity, project: null },
          { limit: MAX_WEBHOOKS },
        )
        if (own.items.length >= MAX_WEBHOOKS) {
          throw new AppError('conflict', 'too_many_webhooks', `an entity may have ${MAX_WEBHOOKS} webhooks`, {
            hint: 'delete one',
          })
        }
        await insertWebhook(transaction, {
          id: made,
          entity: principal.entity,
          project,
          url,
          secret,
          events: [...new Set(events)],
        })
        if (key !== null) await rememberIdempotent(transaction, key, digest, made)
        return made
      })
      const webhook = await requireWebhook(principal, id)
      return { ...toWire(webhook), secret: webhook.secret }
    },
    list: async (principal, query) => {
      const owner = { entity: principal.entity, project: checkProject(principal, query.project) ?? null }
      const page = await listWebhooks(db, owner, { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT })
      return toList(page.items.map(toWire), page.hasMore)
    },
    get: async (principal, id) => toWire(await requireWebhook(principal, id)),
    delete: async (principal, id) => {
      const webhook = await requireWebhook(principal, id)
      await deleteWebhookRow(db, webhook.id)
      return { id: webhook.id, object: 'webhook', deleted: true }
    },
    deliveries: async (principal, id, query) => {
      const webhook = await requireWebhook(principal, id)
      const page = await listDeliveries(db, webhook.id, {
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      return toList(page.items.map(toWireDelivery), page.hasMore)
    },
    redeliver: async (principal, id, deliveryId) => {
      const webhook = await requireWebhook(principal, id)
      const before = await findDelivery(db, webhook.id, deliveryId)
      if (before === null)
        throw new NotFoundError('delivery_not_found', `delivery "${deliveryId.slice(0, 100)}" was not found`)
      return enqueue({ ...before, id: ids.uuid() })
    },
    test: async (principal, id) => {
      const webhook = await requireWebhook(principal, id)
      const [deliveryId, eventId] = [ids.uuid(), ids.uuid()]
      const timestamp = new Date(clock.nowMs()).toISOString()
      const body = JSON.stringify({ type: TEST_EVENT, timestamp, data: toWire(webhook) })
      return enqueue({ id: deliveryId, webhookId: webhook.id, eventId, eventType: TEST_EVENT, body })
    },
  }
}

function toWire(webhook: WebhookRecord): Webhook {
  return {
    id: webhook.id,
    object: 'webhook',
    url: webhook.url,
    events: webhook.events as WebhookEvent[],
    project: webhook.project,
    created_at: toIso(webhook.createdAtMs),
  }
}

function toWireDelivery(delivery: DeliveryRecord): WebhookDelivery {
  return {
    id: delivery.id,
    message_id: delivery.eventId,
    type: delivery.eventType as DeliveryType,
    status: delivery.status as WebhookDelivery['status'],
    attempts: delivery.attempts,
    response_status: delivery.lastStatus,
    error: delivery.lastError,
    next_attempt_at: delivery.nextAttemptAtMs === null ? null : toIso(delivery.nextAttemptAtMs),
    created_at: toIso(delivery.createdAtMs),
    delivered_at: delivery.deliveredAtMs === null ? null : toIso(delivery.deliveredAtMs),
    payload: JSON.parse(delivery.body) as WebhookDelivery['payload'],
  }
}

function toIso(ms: number): string {
  return new Date(ms).toISOString()
}
