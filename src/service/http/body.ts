/**
 * Reading request bodies: content type, size, pace and shape are checked while bytes arrive.
 */
import { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { z } from 'zod'
import { AppError, InvalidRequestError } from '#base/errors/errors.js'
import type { BodyLimits, BodyName, BodyOf, GroupsBodyName } from '#service/bodies/bodies.js'
import type { ReceivedGroups } from '#service/bodies/body-store.js'
import { ignoredFieldsOf, parseWith } from '#service/bodies/parse-body.js'
import type { ReceivedBody } from '#service/bodies/receive-body.js'
import { TICKET } from '#service/operations/access/downloads.js'
import type { Principal } from '#service/operations/context.js'
import type { Admission, RequestContext } from './environment.js'

/** Characters that are shown of an ignored field's name: each may take nine in a header, and clients refuse headers of 16 kB. */
const MAX_NAME = 40

/**
 * Reads a JSON body and checks it; a large one is checked in a thread.
 *
 * @param admission lets the request in before its body is looked at
 * @throws {AppError} `unsupported_media_type`, `request_too_large`, `request_timeout`, `malformed_json`, `queue_full`,
 *   `too_many_bodies`, `client_closed`, and `RequestValidationError` for a body that does not fit
 */
export async function readJson<N extends BodyName>(
  c: RequestContext,
  name: N,
  admission?: Admission,
): Promise<BodyOf<N>> {
  const body = await receiveJson(c, name)
  try {
    await admission?.enter(c)
    const { value, ignoredFields } = await c.get('bodies').parse(name, body)
    reportIgnored(c, ignoredFields)
    return value
  } finally {
    await body.dispose()
  }
}

/** Fields of other versions are no error, and not passed over in silence either. */
export function reportIgnored(c: RequestContext, names: readonly string[]): void {
  if (names.length === 0) return
  // a name may have any characters, a header not; the brackets of a list's items it may
  const shown = names.map((name) =>
    encodeURIComponent(Buffer.from(name.slice(0, MAX_NAME)).toString()).replaceAll('%5B%5D', '[]'),
  )
  c.header('x-trainyard-ignored-fields', shown.join(', '), { append: true })
}

/**
 * Reads a JSON body whose trajectory groups go to a file of their own; the caller publishes or removes that file.
 *
 * @throws {AppError} as `readJson`; {DataError} with the path of the element that is wrong
 */
export async function readGroups<N extends GroupsBodyName>(c: RequestContext, name: N): Promise<ReceivedGroups<N>> {
  const body = await receiveJson(c, name)
  try {
    const groups = await c.get('bodies').readGroups(name, body)
    reportIgnored(c, groups.ignoredFields)
    return groups
  } finally {
    await body.dispose()
  }
}

async function receiveJson(c: RequestContext, name: BodyName): Promise<ReceivedBody> {
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/json') {
    throw new InvalidRequestError(
      'unsupported_media_type',
      "Unsupported Media Type: Only 'application/json' is allowed",
    )
  }
  const bodies = c.get('bodies')
  return bodies.receive(readBytes(c, bodies.maxBytesOf(name)), keyOf(c))
}

/** Whose body it is; workers have a token of their job instead of a key. */
function keyOf(c: RequestContext): string {
  const principal = c.get('principal') as Principal | undefined
  return principal?.keyId ?? c.get('owner') ?? 'anybody'
}

/** Checks a query string and names what of it is ignored; repeated names are refused by the schema as they arrive as lists. */
export function readQuery<S extends z.ZodType>(c: RequestContext, schema: S): z.output<S> {
  const query: Record<string, string | string[]> = {}
  for (const [name, values] of Object.entries(c.req.queries()).filter(
    ([name]) => name !== TICKET || c.get('hasTicket') !== true,
  ))
    query[name] = values.length === 1 ? (values[0] ?? '') : values
  const value = parseWith(schema, query, 'query')
  reportIgnored(c, ignoredFieldsOf(schema, query))
  return value
}

/** Checks the fields of a form beside its file and names those that are ignored. */
export function readFields<S extends z.ZodType>(
  c: RequestContext,
  schema: S,
  fields: ReadonlyMap<string, string>,
): z.output<S> {
  const given = Object.fromEntries(fields)
  const value = parseWith(schema, given, 'body')
  reportIgnored(c, ignoredFieldsOf(schema, given))
  return value
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
  const reader = readerOf(c)
  if (reader === null) return
  const { limits } = c.get('bodies')
  const pace = createPace(limits, c.get('owner') === undefined ? limits.openMs : Number.POSITIVE_INFINITY)
  try {
    for (;;) {
      const next = await pace.read(reader)
      if (next.done) {
        c.set('isBodyRead', true)
        return
      }
      if (pace.totalBytes() > maxBytes) throw tooLarge(maxBytes)
      yield next.value
    }
  } catch (error) {
    if (error instanceof AppError) throw error
    // the connection ended before its body did: nobody's fault here, and nobody is left to read an answer
    throw new AppError('cancelled', 'client_closed', 'the client closed the connection before its body ended', {
      cause: error,
    })
  } finally {
    // what is left is not read; the connection is closed after the answer
    reader.leave()
  }
}

/**
 * Takes a body that is no JSON, and gives up what was held of it when it has been used.
 *
 * @param look sees each part before it is kept, and throws to take no more
 */
export async function withBody<T>(
  c: RequestContext,
  { maxBytes, look }: { readonly maxBytes: number; readonly look?: (part: Uint8Array) => Promise<void> },
  use: (body: ReceivedBody) => Promise<T>,
): Promise<T> {
  async function* seen(): AsyncGenerator<Uint8Array> {
    for await (const part of readBytes(c, maxBytes)) {
      await look?.(part)
      yield part
    }
  }
  const body = await c.get('bodies').receive(seen(), keyOf(c))
  try {
    return await use(body)
  } finally {
    await body.dispose()
  }
}

interface BodyReader {
  read(): Promise<{ readonly done: true } | { readonly done: false; readonly value: Uint8Array }>
  /** Reads no more. */
  leave(): void
}

/**
 * Node's own stream where there is one: as a web stream every body would hold one more part of up to 64 kB in each of two queues,
 * which hundreds of bodies at once do hundreds of times. Null without a body.
 */
function readerOf(c: RequestContext): BodyReader | null {
  const { incoming, outgoing } = (c.env ?? {}) as { readonly incoming?: unknown; readonly outgoing?: unknown }
  if (incoming instanceof Readable) {
    // the key and the announced size have been looked at: a client that asked may send its body now
    if (c.req.header('expect') !== undefined && outgoing instanceof ServerResponse) outgoing.writeContinue()
    const chunks = incoming.iterator({ destroyOnReturn: false }) as AsyncIterator<Uint8Array, undefined>
    return {
      read: async () => {
        const next = await chunks.next()
        return next.done === true ? { done: true } : { done: false, value: next.value }
      },
      leave: () => {
        chunks.return?.().catch(() => undefined)
      },
    }
  }
  const reader = c.req.raw.body?.getReader()
  if (reader === undefined) return null
  return {
    read: async () => {
      const next = await reader.read()
      return next.done ? { done: true } : { done: false, value: next.value }
    },
    leave: () => {
      reader.cancel().catch(() => undefined)
    },
  }
}

/**
 * Reads at the client's pace, and gives it up when it is silent for too long or too slow on average.
 *
 * @param mostMs how long it may take in all
 */
function createPace({ idleMs, minBytesPerSecond }: Pick<BodyLimits, 'idleMs' | 'minBytesPerSecond'>, mostMs: number) {
  let waitedMs = 0
  let totalBytes = 0
  return {
    totalBytes: () => totalBytes,
    read: async (reader: Pick<BodyReader, 'read'>) => {
      const startMs = performance.now()
      const leftMs = mostMs - waitedMs
      const next = await (leftMs < idleMs
        ? withTimeout(reader.read(), leftMs, `a body without a key must be there within ${mostMs} ms`)
        : withTimeout(reader.read(), idleMs, `the body sent nothing for ${idleMs} ms`))
      // Only the wait for the client counts, and none of it more than the timeout: a server or a machine that stood still
      // is not the client's fault.
      waitedMs += Math.min(performance.now() - startMs, idleMs, leftMs)
      if (!next.done) totalBytes += next.value.length
      if (waitedMs > idleMs && totalBytes * 1000 < waitedMs * minBytesPerSecond) {
        throw new InvalidRequestError(
          'request_timeout',
          `the body came at ${Math.round((totalBytes * 1000) / waitedMs)} bytes per second, at least ${minBytesPerSecond} are expected`,
        )
      }
      return next
    },
  }
}

async function withTimeout<T>(promise: Promise<T>, ms: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    const giveUp = () => reject(new InvalidRequestError('request_timeout', message))
    // Bytes that came while this process stood still are read after its timers: they are looked for once more.
    timer = setTimeout(() => setImmediate(giveUp), Math.max(0, ms))
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
