/**
 * Webhooks, their deliveries, and sending one again.
 */
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'
import { idempotencyKey } from '../headers.js'

export function webhookHandlers({ services: { webhooks } }: AppOptions) {
  return handlers({
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
  })
}
