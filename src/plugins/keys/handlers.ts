/**
 * API keys, and what was used.
 */
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { keyEndpoints } from './endpoints.js'
import { createKeyService } from './keys.js'

export function keyHandlers({ context, app }: PluginService): PluginHandlers<typeof keyEndpoints> {
  const { usage } = app.services
  const keys = createKeyService(context)
  return {
    'GET /v1/preview/keys': ({ principal, query }) => keys.list(principal, query()),
    'POST /v1/preview/keys': async ({ principal, body, c }) => {
      const created = await keys.create(principal, await body(), idempotencyKey(c))
      // a proxy must not keep the one answer that holds the key
      c.header('cache-control', 'no-store')
      return created
    },
    'GET /v1/preview/keys/usage': ({ principal, query }) => usage.reportKeys(principal, query()),
    'GET /v1/preview/keys/{key_id}': ({ principal, params }) => keys.get(principal, params.key_id),
    'DELETE /v1/preview/keys/{key_id}': ({ principal, params }) => keys.delete(principal, params.key_id),
    'GET /v1/usage': async ({ principal, query, c }) => {
      const report = await usage.report(principal, query())
      return c.body(report, 200, { 'content-type': 'application/json' })
    },
  }
}
