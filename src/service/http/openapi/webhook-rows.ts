/**
 * Routes of webhooks.
 */
import { pageQuerySchema } from '#contract/wire/list.js'
import {
  createdWebhookSchema,
  createWebhookRequestSchema,
  deletedWebhookSchema,
  listWebhooksQuerySchema,
  webhookDeliveryListSchema,
  webhookDeliverySchema,
  webhookListSchema,
  webhookSchema,
} from '#contract/wire/webhooks/webhooks.js'
import type { Route } from './row.js'

const ROOT = '/v1/preview/webhooks'
const ONE = `${ROOT}/{webhook_id}`
const tag = 'Webhooks'

export const WEBHOOK_ROUTES: readonly Route[] = [
  {
    method: 'post',
    path: ROOT,
    tag,
    summary: 'Have events sent to an address',
    body: createWebhookRequestSchema,
    answer: createdWebhookSchema,
  },
  {
    method: 'get',
    path: ROOT,
    tag,
    summary: 'List webhooks',
    query: listWebhooksQuerySchema,
    answer: webhookListSchema,
  },
  { method: 'get', path: ONE, tag, summary: 'Get a webhook', answer: webhookSchema },
  { method: 'delete', path: ONE, tag, summary: 'Delete a webhook', answer: deletedWebhookSchema },
  {
    method: 'get',
    path: `${ONE}/deliveries`,
    tag,
    summary: 'List what was sent to a webhook, newest first',
    query: pageQuerySchema,
    answer: webhookDeliveryListSchema,
  },
  {
    method: 'post',
    path: `${ONE}/deliveries/{delivery_id}/redeliver`,
    tag,
    summary: 'Send a message again',
    answer: webhookDeliverySchema,
  },
]
