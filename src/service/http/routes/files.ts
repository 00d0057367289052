/**
 * `/v1/files` as OpenAI's SDKs use it; an upload may also be the raw bytes with `?filename=&purpose=&artifact=`.
 */
import { z } from 'zod'
import { InvalidRequestError } from '#base/errors/errors.js'
import { listFilesQuerySchema } from '#contract/wire/files.js'
import { readBytes, readFields, readQuery } from '../body.js'
import type { App, AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { idempotencyKey } from '../headers.js'
import { readMultipart } from '../multipart.js'

const DEFAULT_PURPOSE = 'fine-tune'

const uploadFieldsSchema = z.object({
  purpose: z.string().max(64).optional(),
  artifact: z.string().max(1024).optional(),
})
export const uploadQuerySchema = uploadFieldsSchema.extend({ filename: z.string().min(1).max(512).optional() })
/** A form says all in its fields. */
const noQuerySchema = z.object({})

export function bindFiles(app: App, options: AppOptions): void {
  const { files } = options.services
  app.post('/v1/files', async (c) => {
    const contentType = c.req.header('content-type') ?? ''
    const key = idempotencyKey(c)
    const body = readBytes(c, c.get('bodies').limits.uploadBytes)
    if (contentType.toLowerCase().startsWith('multipart/form-data')) {
      readQuery(c, noQuerySchema)
      const form = await readMultipart(contentType, body)
      const stored = await files.upload(
        c.get('principal'),
        form.file,
        async () => {
          const given = await form.fields
          assertNoExpiry(given)
          const { purpose = DEFAULT_PURPOSE, artifact = null } = readFields(c, uploadFieldsSchema, given)
          return { filename: form.filename, purpose, artifact }
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
  app.get('/v1/files', async (c) => c.json(await files.list(c.get('principal'), readQuery(c, listFilesQuerySchema))))
  app.get('/v1/files/:file_id', async (c) => c.json(await files.get(c.get('principal'), c.req.param('file_id'))))
  app.get('/v1/files/:file_id/content', async (c) => {
    const { file, stream } = await files.open(c.get('principal'), c.req.param('file_id'))
    return sendFile(c, stream, {
      'content-type': 'application/octet-stream',
      'content-length': String(file.bytes),
      // a name is data: the plain form has no characters that could end it
      'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(file.filename)}`,
    })
  })
  app.delete('/v1/files/:file_id', async (c) => c.json(await files.delete(c.get('principal'), c.req.param('file_id'))))
}

/** OpenAI's files may expire; files here stay until they are deleted, which must not come as a surprise. */
function assertNoExpiry(fields: ReadonlyMap<string, string>): void {
  const name = [...fields.keys()].find((key) => key.startsWith('expires_after'))
  if (name === undefined) return
  throw new InvalidRequestError(
    'unsupported_parameter',
    'expires_after is not supported: files stay until they are deleted',
    {
      param: 'expires_after',
      hint: 'leave it out and delete the file when it is no longer needed',
    },
  )
}
