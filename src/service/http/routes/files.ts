/**
 * `POST /v1/files`: multipart as OpenAI's SDKs send it, or the raw bytes with `?filename=&purpose=&artifact=`.
 */
import { z } from '@hono/zod-openapi'
import { readBytes, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { idempotencyKey } from '../headers.js'
import { readMultipart } from '../multipart.js'

const DEFAULT_PURPOSE = 'fine-tune'

const uploadQuerySchema = z.object({
  filename: z.string().min(1).max(512).optional(),
  purpose: z.string().max(64).optional(),
  artifact: z.string().max(1024).optional(),
})

export function bindFiles(app: App, options: AppOptions): void {
  const { files } = options.services
  app.post('/v1/files', async (c) => {
    const contentType = c.req.header('content-type') ?? ''
    const key = idempotencyKey(c)
    const body = readBytes(c, c.get('bodies').limits.uploadBytes)
    if (contentType.toLowerCase().startsWith('multipart/form-data')) {
      const form = await readMultipart(contentType, body)
      const stored = await files.upload(
        c.get('principal'),
        form.file,
        async () => {
          const fields = await form.fields
          return {
            filename: form.filename,
            purpose: fields.get('purpose') ?? DEFAULT_PURPOSE,
            artifact: fields.get('artifact') ?? null,
          }
        },
        key,
      )
      return c.json(stored)
    }
    const query = readQuery(c, uploadQuerySchema)
    const stored = await files.upload(
      c.get('principal'),
      body,
      async () => ({
        filename: query.filename ?? 'upload',
        purpose: query.purpose ?? DEFAULT_PURPOSE,
        artifact: query.artifact ?? null,
      }),
      key,
    )
    return c.json(stored)
  })
}
