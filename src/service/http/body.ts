/**
 * Reading request bodies: content type, size, pace and shape are checked while bytes arrive.
 */
import type { z } from '@hono/zod-openapi'
import { RequestValidationError, toValidationProblems } from '#api/wire/errors.js'
import { AppError, InvalidRequestError } from '#base/errors.js'
import type { RequestContext } from './environment.js'
import { createJsonReader, type JsonReaderOptions } from './json-reader.js'

/** Largest bodies, by kind of route. Settings of the server, documented in the README. */
export const BODY_LIMITS = {
  /** Models, deletes, SFT jobs: small objects. */
  small: 8 * 1024 ** 2,
  /** Chat: long conversations. */
  chat: 64 * 1024 ** 2,
  /** Trajectory groups: read element by element, so memory does not grow with it. */
  trajectories: 1024 ** 3,
} as const

export interface ReadJsonOptions extends JsonReaderOptions {
  readonly maxBytes: number
  /** Awaited after each chunk, so that whatever consumes elements sets the pace. */
  readonly onChunk?: () => Promise<void>
}

/**
 * Reads a JSON body and checks it against a schema.
 *
 * @throws {AppError} `unsupported_media_type`, `request_too_large`, `request_timeout`, `malformed_json`, and
 *   `RequestValidationError` for a body that does not fit
 */
export async function readJson<S extends z.ZodType>(
  c: RequestContext,
  schema: S,
  options: ReadJsonOptions,
): Promise<z.output<S>> {
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json') {
    throw new InvalidRequestError(
      'unsupported_media_type',
      "Unsupported Media Type: Only 'application/json' is allowed",
    )
  }
  const reader = createJsonReader(options)
  for await (const chunk of readBytes(c, options.maxBytes)) {
    reader.push(chunk)
    await options.onChunk?.()
  }
  return parseWith(schema, reader.finish(), 'body')
}

/** Checks a query string; repeated names are refused by the schema as they arrive as lists. */
export function readQuery<S extends z.ZodType>(c: RequestContext, schema: S): z.output<S> {
  const query: Record<string, string | string[]> = {}
  for (const [name, values] of Object.entries(c.req.queries()))
    query[name] = values.length === 1 ? (values[0] ?? '') : values
  return parseWith(schema, query, 'query')
}

/** @throws {RequestValidationError} */
export function parseWith<S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw new RequestValidationError(toValidationProblems(result.error.issues, root))
}

/**
 * The bytes of a body, bounded in size and pace.
 *
 * Compressed bodies are refused: a few bytes could become gigabytes.
 */
export async function* readBytes(c: RequestContext, maxBytes: number): AsyncGenerator<Uint8Array> {
  const encoding = c.req.header('content-encoding')?.toLowerCase() ?? 'identity'
  if (encoding !== 'identity') {
    throw new InvalidRequestError(
      'unsupported_media_type',
      `Content-Encoding "${encoding.slice(0, 40)}" is not supported`,
    )
  }
  const announced = Number(c.req.header('content-length') ?? 0)
  if (announced > maxBytes) throw tooLarge(maxBytes)
  const reader = c.req.raw.body?.getReader()
  if (reader === undefined) return
  let total = 0
  try {
    for (;;) {
      const { done, value } = await withIdleTimeout(reader.read(), c.get('bodyIdleMs'))
      if (done) return
      const bytes: unknown = value
      if (!(bytes instanceof Uint8Array)) continue
      total += bytes.length
      if (total > maxBytes) throw tooLarge(maxBytes)
      yield bytes
    }
  } finally {
    // what is left is not read; the connection is closed after the answer
    reader.cancel().catch(() => undefined)
  }
}

async function withIdleTimeout<T>(promise: Promise<T>, idleMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new InvalidRequestError('request_timeout', `the body sent nothing for ${idleMs} ms`)),
      idleMs,
    )
  })
  try {
    return await Promise.race([promise, timeout])
  } finally {
    clearTimeout(timer)
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError('too_large', 'request_too_large', `the body is larger than ${maxBytes} bytes`, {
    details: { max_bytes: maxBytes },
  })
}
