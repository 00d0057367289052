/**
 * Files as OpenAI's SDKs use them; an upload may also be the raw bytes with `?filename=&purpose=&artifact=`.
 */
import { z } from 'zod'
import { InvalidRequestError } from '#base/errors/errors.js'
import { uploadFieldsSchema } from '#contract/wire/files.js'
import { readBytes, readFields, readQuery } from '../body.js'
import type { AppOptions } from '../environment.js'
import { sendFile } from '../file-answer.js'
import { handlers } from '../handlers.js'
import { idempotencyKey } from '../headers.js'
import { readMultipart } from '../multipart.js'

const DEFAULT_PURPOSE = 'fine-tune'
/** A form says all in its fields. */
const noQuerySchema = z.object({})

export function fileHandlers({ services: { files } }: AppOptions) {
  return handlers({
    'POST /v1/files': async ({ principal, query, c }) => {
      const contentType = c.req.header('content-type') ?? ''
      const key = idempotencyKey(c)
      const bytes = readBytes(c, c.get('bodies').limits.uploadBytes)
      if (contentType.toLowerCase().startsWith('multipart/form-data')) {
        readQuery(c, noQuerySchema)
        const form = await readMultipart(contentType, bytes)
        const describe = async () => {
          const given = await form.fields
          assertNoExpiry(given)
          const { purpose = DEFAULT_PURPOSE, artifact = null } = readFields(c, uploadFieldsSchema, given)
          return { filename: form.filename, purpose, artifact }
        }
        return files.upload(principal, form.file, describe, key)
      }
      const { filename = 'upload', purpose = DEFAULT_PURPOSE, artifact = null } = query()
      return files.upload(principal, bytes, async () => ({ filename, purpose, artifact }), key)
    },
    'GET /v1/files': ({ principal, query }) => files.list(principal, query()),
    'GET /v1/files/{file_id}': ({ principal, params }) => files.get(principal, params.file_id),
    'GET /v1/files/{file_id}/content': async ({ principal, params, c }) => {
      const { file, stream } = await files.open(principal, params.file_id)
      return sendFile(c, stream, {
        'content-type': 'application/octet-stream',
        'content-length': String(file.bytes),
        // a name is data: the plain form has no characters that could end it
        'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(file.filename)}`,
      })
    },
    'DELETE /v1/files/{file_id}': ({ principal, params }) => files.delete(principal, params.file_id),
  })
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
