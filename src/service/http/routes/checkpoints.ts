/**
 * Checkpoints of a model and their files.
 */
import type { AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { handlers } from '../handlers.js'

export function checkpointHandlers({ services: { checkpoints } }: AppOptions) {
  return handlers({
    'GET /v1/preview/models/{model_id}/checkpoints': ({ principal, params, query }) =>
      checkpoints.list(principal, params.model_id, query()),
    'DELETE /v1/preview/models/{model_id}/checkpoints': async ({ principal, params, body }) =>
      checkpoints.delete(principal, params.model_id, (await body()).steps),
    'GET /v1/preview/models/{model_id}/keep-rule': ({ principal, params }) =>
      checkpoints.keepRule(principal, params.model_id),
    'PUT /v1/preview/models/{model_id}/keep-rule': async ({ principal, params, body }) =>
      checkpoints.setKeepRule(principal, params.model_id, (await body()).rule),
    'GET /v1/preview/models/{model_id}/checkpoints/{step}/files': ({ principal, params, query }) =>
      checkpoints.files(principal, params.model_id, params.step, query()),
    'GET /v1/preview/models/{model_id}/checkpoints/{step}/files/{name}': async ({ principal, params, query, c }) => {
      const { model_id: modelId, step, name } = params
      const file = await checkpoints.openFile(principal, modelId, { step, name }, query())
      return sendFile(c, file.stream, {
        'content-type': 'application/octet-stream',
        'content-length': String(file.sizeBytes),
        ...(file.sha256 === null ? {} : { 'x-content-sha256': file.sha256, etag: `"${file.sha256}"` }),
      })
    },
  })
}
