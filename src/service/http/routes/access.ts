/**
 * API keys, what was used, and whose key this is.
 */
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'
import { idempotencyKey } from '../headers.js'

export function accessHandlers({ services: { keys, usage }, version }: AppOptions) {
  return handlers({
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
    'GET /v1/whoami': ({ principal }) => ({
      entity: principal.entity,
      project: principal.project,
      scope: principal.scope,
      key_id: principal.keyId,
      key_prefix: principal.keyPrefix,
      session_id: principal.sessionId,
      version,
    }),
  })
}
