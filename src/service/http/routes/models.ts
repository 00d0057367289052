/**
 * Models: create, read, list and delete them, and read their metrics.
 */
import { reportIgnored } from '../body.js'
import type { AppOptions } from '../environment.js'
import { handlers } from '../handlers.js'
import { idempotencyKey } from '../headers.js'

export function modelHandlers({ services: { models, modelMetrics, modelNotes } }: AppOptions) {
  return handlers({
    'GET /v1/preview/models': ({ principal, query }) => models.list(principal, query()),
    'POST /v1/preview/models': async ({ principal, body, c }) =>
      models.create(principal, await body(), idempotencyKey(c)),
    'GET /v1/preview/models/{model_id}': ({ principal, params }) => models.get(principal, params.model_id),
    'GET /v1/preview/models/{model_id}/metrics': async ({ principal, params, query, c }) => {
      const { metrics, unknownKeys } = await modelMetrics.get(principal, params.model_id, query())
      reportIgnored(
        c,
        unknownKeys.map((key) => `keys.${key}`),
      )
      return metrics
    },
    'GET /v1/preview/models/{model_id}/note': ({ principal, params }) => modelNotes.note(principal, params.model_id),
    'PUT /v1/preview/models/{model_id}/note': async ({ principal, params, body }) =>
      modelNotes.setNote(principal, params.model_id, await body()),
    'DELETE /v1/preview/models/{model_id}': ({ principal, params }) => models.delete(principal, params.model_id),
  })
}
