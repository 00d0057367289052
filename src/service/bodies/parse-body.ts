/**
 * Bytes of a whole body → the checked request. Runs on the event loop for small bodies and in a thread for large ones.
 *
 * A schema makes an issue of every wrong element, which costs far more than reading it: long lists are therefore tried in
 * slices first, and the first slice with a wrong element ends it.
 */
import { z } from '@hono/zod-openapi'
import { RequestValidationError, toValidationProblems } from '#api/wire/errors.js'
import { AppError } from '#base/errors.js'
import { BODIES, type BodyName } from './bodies.js'
import { createJsonReader } from './json-reader.js'

/** A checked body. */
export interface ParsedBody<T = unknown> {
  readonly value: T
  /** Names of the body's own fields that no schema knows, the first `MAX_NAMED` of them: they have no effect. */
  readonly ignoredFields: readonly string[]
}

/** Most ignored fields that are named. */
const MAX_NAMED = 20

/** @throws {AppError} `malformed_json`, `request_too_large`; {RequestValidationError} for a body that does not fit */
export function parseBody(name: BodyName, chunks: Iterable<Uint8Array>): ParsedBody {
  const { schema, reader: options } = BODIES[name]
  const reader = createJsonReader(options)
  for (const chunk of chunks) reader.push(chunk)
  const body = reader.finish()
  return { value: parseWith(schema, body, 'body'), ignoredFields: ignoredFieldsOf(schema, body) }
}

/** What of a body a schema leaves out. */
export function ignoredFieldsOf(schema: z.ZodType, body: unknown): readonly string[] {
  if (!(schema instanceof z.ZodObject) || schema.def.catchall !== undefined) return []
  if (typeof body !== 'object' || body === null) return []
  return Object.keys(body)
    .filter((name) => !Object.hasOwn(schema.shape, name))
    .slice(0, MAX_NAMED)
}

/**
 * @param root first element of every problem's location: `body`, `query`
 * @throws {RequestValidationError} with the first problems
 */
export function parseWith<S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> {
  if (schema instanceof z.ZodObject && typeof value === 'object' && value !== null) {
    tryLongFields(schema.shape, new Map(Object.entries(value)), root)
  }
  const result = tryParse(schema, value)
  if (result.success) return result.data
  throw new RequestValidationError(toValidationProblems(result.error.issues, root))
}

function tryParse<S extends z.ZodType>(schema: S, value: unknown): z.ZodSafeParseResult<z.output<S>> {
  try {
    return schema.safeParse(value)
  } catch (cause) {
    // zod passes all issues of a list as arguments of one call
    if (!(cause instanceof RangeError)) throw cause
    throw new AppError('too_large', 'request_too_large', 'the body has too many wrong values to list them', { cause })
  }
}

/** Entries of one slice. */
const SLICE_LENGTH = 200

function tryLongFields(shape: z.core.$ZodShape, fields: ReadonlyMap<string, unknown>, root: string): void {
  for (const [key, schema] of Object.entries(shape)) {
    const value = fields.get(key)
    if (typeof value !== 'object' || value === null) continue
    const entries = Array.isArray(value) ? null : Object.entries(value)
    const length = entries === null ? (value as readonly unknown[]).length : entries.length
    if (length <= SLICE_LENGTH) continue
    for (let start = 0; start < length; start += SLICE_LENGTH) {
      const end = start + SLICE_LENGTH
      const slice =
        entries === null
          ? (value as readonly unknown[]).slice(start, end)
          : Object.fromEntries(entries.slice(start, end))
      const result = tryParse(z.object({ [key]: schema as z.ZodType }), { [key]: slice })
      if (result.success) continue
      const issues = result.error.issues.map((issue) => ({
        ...issue,
        path: [...issue.path.map((part, i) => (i === 1 && typeof part === 'number' ? part + start : part))],
      }))
      throw new RequestValidationError(toValidationProblems(issues, root))
    }
  }
}
