/**
 * Endpoints of webhooks.
 */
import { pageQuerySchema } from '../wire/list.js'
import {
  createdWebhookSchema,
  createWebhookRequestSchema,
  deletedWebhookSchema,
  listWebhooksQuerySchema,
  webhookDeliveryListSchema,
  webhookDeliverySchema,
  webhookListSchema,
  webhookSchema,
} from '../wire/webhooks/webhooks.js'
import { small } from './bodies.js'
import { endpoints } from './endpoint.js'

const ours = { tag: 'Webhooks', origin: 'ours' } as const

export const WEBHOOKS = endpoints({
  'POST /v1/preview/webhooks': {
    ...ours,
    summary: 'Have events sent to an address',
    scope: 'write',
    body: small(createWebhookRequestSchema),
    answer: createdWebhookSchema,
  },
  'GET /v1/preview/webhooks': {
    ...ours,
    summary: 'List webhooks',
    scope: 'read',
    query: listWebhooksQuerySchema,
    answer: webhookListSchema,
  },
  'GET /v1/preview/webhooks/{webhook_id}': { ...ours, summary: 'Get a webhook', scope: 'read', answer: webhookSchema },
  'DELETE /v1/preview/webhooks/{webhook_id}': {
    ...ours,
    summary: 'Delete a webhook',
    scope: 'write',
    answer: deletedWebhookSchema,
  },
  'GET /v1/preview/webhooks/{webhook_id}/deliveries': {
    ...ours,
    summary: 'List what was sent to a webhook, newest first',
    scope: 'read',
    query: pageQuerySchema,
    answer: webhookDeliveryListSchema,
  },
  'POST /v1/preview/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': {
    ...ours,
    summary: 'Send a message again',
    scope: 'write',
    answer: webhookDeliverySchema,
  },
  'POST /v1/preview/webhooks/{webhook_id}/test': {
    ...ours,
    summary: 'Send a message that only tests the way to its address',
    scope: 'write',
    answer: webhookDeliverySchema,
  },
})
