/**
 * Uploads: begin, send a part, join, cancel.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { readBytes } from '#service/http/body.js'
import { idempotencyKey } from '#service/http/headers.js'
import { readMultipart } from '#service/http/multipart.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { uploadEndpoints } from './endpoints.js'
import { createUploadService } from './uploads.js'
import { MAX_PART } from './wire.js'

/** What a form has around the bytes of a part. */
const FORM_BYTES = 64 * 1024

export function uploadHandlers({ context, app }: PluginService): PluginHandlers<typeof uploadEndpoints> {
  const uploads = createUploadService(context, app.services.files)
  return {
    'POST /v1/uploads': async ({ principal, body, c }) => uploads.create(principal, await body(), idempotencyKey(c)),
    'POST /v1/uploads/{upload_id}/parts': async ({ principal, params, c }) => {
      const contentType = c.req.header('content-type') ?? ''
      const takePart = await uploads.openPart(principal, params.upload_id)
      if (!contentType.toLowerCase().startsWith('multipart/form-data')) {
        throw new InvalidRequestError('unsupported_media_type', 'a part must come as multipart/form-data, field "data"')
      }
      const form = await readMultipart(contentType, readBytes(c, MAX_PART + FORM_BYTES))
      return takePart(form.file, form.fields)
    },
    'POST /v1/uploads/{upload_id}/complete': async ({ principal, params, body }) =>
      uploads.complete(principal, params.upload_id, await body()),
    'POST /v1/uploads/{upload_id}/cancel': ({ principal, params }) => uploads.cancel(principal, params.upload_id),
  }
}
