/**
 * Uploads: one file of a `multipart/form-data` body as a stream, and the small fields around it.
 */
import { Readable } from 'node:stream'
import { Busboy, type BusboyHeaders } from '@fastify/busboy'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import { createDeferred } from '#base/util/deferred.js'

export interface MultipartUpload {
  readonly filename: string
  readonly file: AsyncIterable<Uint8Array>
  /** Fields before and after the file; wait for it after the file has been read. */
  readonly fields: Promise<ReadonlyMap<string, string>>
}

const LIMITS = { files: 1, fields: 20, fieldSize: 4096, parts: 25, headerPairs: 20 } as const

/**
 * Waits for the first file part.
 *
 * @throws {InvalidRequestError} `invalid_multipart` for a malformed body or one without a file; the fields are rejected with it where there are too
 *   many or a second file
 */
export async function readMultipart(contentType: string, body: AsyncIterable<Uint8Array>): Promise<MultipartUpload> {
  const fields = new Map<string, string>()
  const finished = createDeferred<ReadonlyMap<string, string>>()
  const found = createDeferred<MultipartUpload>()
  finished.promise.catch(() => undefined)
  let current: Readable | null = null
  const source = Readable.from(body, { objectMode: false })

  function fail(error: unknown): void {
    const failure = error instanceof AppError ? error : malformed(error)
    found.reject(failure)
    finished.reject(failure)
    if (current?.destroyed === false) current.destroy(failure)
    source.unpipe()
    source.destroy()
  }

  let parser: InstanceType<typeof Busboy>
  try {
    parser = new Busboy({
      headers: { 'content-type': contentType } as BusboyHeaders,
      limits: LIMITS,
      defCharset: 'utf8',
    })
  } catch (cause) {
    throw malformed(cause)
  }
  parser.on('field', (name, value, _isNameCut, isCut) => {
    if (isCut) fail(malformed(new Error(`field "${name}" has more than ${LIMITS.fieldSize} bytes`)))
    fields.set(name, value)
  })
  parser.on('filesLimit', () => fail(malformed(new Error('it has more than one file, and each needs a request'))))
  parser.on('fieldsLimit', () => fail(malformed(new Error(`it has more than ${LIMITS.fields} fields beside the file`))))
  parser.on('file', (_name, stream, filename) => {
    current = stream
    // a torn form fails the part before or after anybody reads it: without a listener that would end the process
    stream.on('error', fail)
    found.resolve({ filename: filename || 'upload', file: stream, fields: finished.promise })
  })
  parser.on('finish', () => {
    found.reject(malformed(new Error('the form has no file')))
    finished.resolve(fields)
  })
  parser.on('error', fail)
  source.on('error', fail)
  source.pipe(parser)
  return found.promise
}

function malformed(cause: unknown): InvalidRequestError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new InvalidRequestError('invalid_multipart', `the form cannot be read: ${reason}`, { cause })
}
