/**
 * `/v1/preview/webhooks`, their deliveries, and sending one again.
 */
import { pageQuerySchema } from '#contract/wire/list.js'
import { listWebhooksQuerySchema } from '#contract/wire/webhooks/webhooks.js'
import { readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { idempotencyKey } from '../headers.js'

export function bindWebhooks(app: App, options: AppOptions): void {
  const { webhooks } = options.services
  const root = '/v1/preview/webhooks' as const
  const one = `${root}/:webhook_id` as const
  app.post(root, async (c) => {
    const created = await webhooks.create(c.get('principal'), await readJson(c, 'createWebhook'), idempotencyKey(c))
    // a proxy must not keep the one answer that holds the secret
    c.header('cache-control', 'no-store')
    return c.json(created)
  })
  app.get(root, async (c) => c.json(await webhooks.list(c.get('principal'), readQuery(c, listWebhooksQuerySchema))))
  app.get(one, async (c) => c.json(await webhooks.get(c.get('principal'), c.req.param('webhook_id'))))
  app.delete(one, async (c) => c.json(await webhooks.delete(c.get('principal'), c.req.param('webhook_id'))))
  app.get(`${one}/deliveries`, async (c) => {
    const query = readQuery(c, pageQuerySchema)
    return c.json(await webhooks.deliveries(c.get('principal'), c.req.param('webhook_id'), query))
  })
  app.post(`${one}/deliveries/:delivery_id/redeliver`, async (c) => {
    const { webhook_id: id, delivery_id: delivery } = c.req.param()
    return c.json(await webhooks.redeliver(c.get('principal'), id, delivery))
  })
}
