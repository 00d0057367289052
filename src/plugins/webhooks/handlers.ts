/**
 * Webhooks, their deliveries, and sending one again.
 */
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { webhookEndpoints } from './endpoints.js'
import type { Sending } from './start.js'
import { createWebhookService } from './webhooks.js'

export function webhookHandlers({ context, started }: PluginService<Sending>): PluginHandlers<typeof webhookEndpoints> {
  const webhooks = createWebhookService(context, started)
  return {
    'POST /v1/preview/webhooks': async ({ principal, body, c }) => {
      const created = await webhooks.create(principal, await body(), idempotencyKey(c))
      // a proxy must not keep the one answer that holds the secret
      c.header('cache-control', 'no-store')
      return created
    },
    'GET /v1/preview/webhooks': ({ principal, query }) => webhooks.list(principal, query()),
    'GET /v1/preview/webhooks/{webhook_id}': ({ principal, params }) => webhooks.get(principal, params.webhook_id),
    'DELETE /v1/preview/webhooks/{webhook_id}': ({ principal, params }) =>
      webhooks.delete(principal, params.webhook_id),
    'GET /v1/preview/webhooks/{webhook_id}/deliveries': ({ principal, params, query }) =>
      webhooks.deliveries(principal, params.webhook_id, query()),
    'POST /v1/preview/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': ({ principal, params }) =>
      webhooks.redeliver(principal, params.webhook_id, params.delivery_id),
    'POST /v1/preview/webhooks/{webhook_id}/test': ({ principal, params }) =>
      webhooks.test(principal, params.webhook_id),
  }
}
