/**
 * `/v1/preview/keys` and `/v1/usage`.
 */
import { listKeysQuerySchema } from '#contract/wire/access/keys.js'
import { usageQuerySchema } from '#contract/wire/access/usage.js'
import { readJson, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { idempotencyKey } from '../headers.js'

export function bindAccess(app: App, options: AppOptions): void {
  const { keys, usage } = options.services
  app.get('/v1/preview/keys', async (c) =>
    c.json(await keys.list(c.get('principal'), readQuery(c, listKeysQuerySchema))),
  )
  app.post('/v1/preview/keys', async (c) => {
    const created = await keys.create(c.get('principal'), await readJson(c, 'createKey'), idempotencyKey(c))
    // a proxy must not keep the one answer that holds the key
    c.header('cache-control', 'no-store')
    return c.json(created)
  })
  app.get('/v1/preview/keys/:key_id', async (c) => c.json(await keys.get(c.get('principal'), c.req.param('key_id'))))
  app.delete('/v1/preview/keys/:key_id', async (c) =>
    c.json(await keys.delete(c.get('principal'), c.req.param('key_id'))),
  )
  app.get('/v1/usage', async (c) => {
    const report = await usage.report(c.get('principal'), readQuery(c, usageQuerySchema))
    return c.body(report, 200, { 'content-type': 'application/json' })
  })
}
