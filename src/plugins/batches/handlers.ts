/**
 * Batches: create, list, get, cancel.
 */
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { type BatchWaker, createBatchService } from './batches.js'
import type { batchEndpoints } from './endpoints.js'

export function batchHandlers({ context, started }: PluginService<BatchWaker>): PluginHandlers<typeof batchEndpoints> {
  const batches = createBatchService(context, started)
  return {
    'POST /v1/batches': async ({ principal, body, c }) => batches.create(principal, await body(), idempotencyKey(c)),
    'GET /v1/batches': ({ principal, query }) => batches.list(principal, query()),
    'GET /v1/batches/{batch_id}': ({ principal, params }) => batches.get(principal, params.batch_id),
    'POST /v1/batches/{batch_id}/cancel': ({ principal, params }) => batches.cancel(principal, params.batch_id),
  }
}
