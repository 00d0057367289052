/**
 * Bytes of a whole body → the checked request. Runs on the event loop for small bodies and in a thread for large ones.
 *
 * A schema makes an issue of every wrong element, which costs far more than reading it: long lists are therefore tried in
 * slices first, and the first slice with a wrong element ends it.
 */
import { z } from 'zod'
import { AppError } from '#base/errors/errors.js'
import type { JsonBody } from '#contract/endpoints/endpoint.js'
import { RequestValidationError, toSentences, toValidationProblems } from '#contract/wire/errors.js'
import { createJsonReader } from './json-reader.js'

/** A checked body. */
export interface ParsedBody<T = unknown> {
  readonly value: T
  /** Names of fields that no schema knows, then of options that are off, the first `MAX_NAMED` of them: they have no effect. */
  readonly ignoredFields: readonly string[]
}

/** Most ignored fields that are named. */
const MAX_NAMED = 20

/** @throws {AppError} `malformed_json`, `request_too_large`; {RequestValidationError} for a body that does not fit */
export function parseBody(kind: JsonBody, chunks: Iterable<Uint8Array>): ParsedBody {
  const { schema, reader: options, idle: idleOf, told = [] } = kind
  const reader = createJsonReader(options)
  for (const chunk of chunks) reader.push(chunk)
  const body = reader.finish()
  const value = parseTelling(schema, body, told)
  const idle = isFields(value) ? (idleOf?.(value) ?? []) : []
  return { value, ignoredFields: [...ignoredFieldsOf(schema, body), ...idle].slice(0, MAX_NAMED) }
}

/** What of a body a schema leaves out: its own fields first, then those inside, as `messages[].mood`. */
export function ignoredFieldsOf(schema: z.ZodType, body: unknown): readonly string[] {
  const names = new Set<string>()
  let level: readonly Place[] = [{ schema, value: body, path: '' }]
  while (level.length > 0 && names.size < MAX_NAMED) {
    const next: Place[] = []
    for (const place of level) {
      for (const name of unknownNames(place)) if (names.size < MAX_NAMED) names.add(name)
      for (const inner of placesInside(place)) next.push(inner)
    }
    level = next
  }
  return [...names]
}

interface Place {
  readonly schema: z.ZodType
  readonly value: unknown
  /** With `.` behind a name; empty for the body. */
  readonly path: string
}

/** Inside, null and an empty list say nothing: clients send an answer back with every field it had. */
function unknownNames({ schema, value, path }: Place): readonly string[] {
  if (!isClosed(schema) || !isObject(value)) return []
  const isSaid = (field: unknown) => field !== null && !(Array.isArray(field) && field.length === 0)
  return Object.entries(value)
    .filter(([name, field]) => !Object.hasOwn(schema.shape, name) && (path === '' || isSaid(field)))
    .map(([name]) => `${path}${name}`)
}

function* placesInside({ schema, value, path }: Place): Generator<Place> {
  if (schema instanceof z.ZodArray && Array.isArray(value)) {
    const element = optionFor(schema.element as z.ZodType, value.find(isObject))
    if (element !== null) for (const item of value) if (isObject(item)) yield { schema: element, value: item, path }
    return
  }
  if (!isClosed(schema) || !isObject(value)) return
  const fields = new Map(Object.entries(value))
  for (const [name, field] of Object.entries(schema.shape)) {
    const inner = fields.get(name)
    const option = optionFor(field as z.ZodType, inner)
    if (option !== null)
      yield { schema: option, value: inner, path: `${path}${name}${Array.isArray(inner) ? '[]' : ''}.` }
  }
}

/** The schema that an object or a list goes by; null where none looks inside. */
function optionFor(schema: z.ZodType, value: unknown): z.ZodType | null {
  if (typeof value !== 'object' || value === null) return null
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return optionFor(schema.unwrap() as z.ZodType, value)
  }
  if (schema instanceof z.ZodUnion) {
    const options = schema.options as readonly z.ZodType[]
    return options.map((option) => optionFor(option, value)).find((option) => option !== null) ?? null
  }
  if (Array.isArray(value)) return schema instanceof z.ZodArray ? schema : null
  return isClosed(schema) ? schema : null
}

/** Loose objects keep what they do not know. */
function isClosed(schema: z.ZodType): schema is z.ZodObject {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value)
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * @param root first element of every problem's location: `body`, `query`
 * @throws {RequestValidationError} with the first problems
 */
export function parseWith<S extends z.ZodType>(schema: S, value: unknown, root: string): z.output<S> {
  if (schema instanceof z.ZodObject && typeof value === 'object' && value !== null) {
    tryLongFields(schema.shape, value, root)
  }
  const result = tryParse(schema, value)
  if (result.success) return result.data
  throw misfit(result.error.issues, value, root)
}

/** @throws {RequestValidationError} with what the body says in these fields, where that is a text or a number */
function parseTelling<S extends z.ZodType>(schema: S, body: unknown, told: readonly string[]): z.output<S> {
  try {
    return parseWith(schema, body, 'body')
  } catch (error) {
    if (!(error instanceof RequestValidationError) || !isFields(body) || told.length === 0) throw error
    const said = Object.entries(body).filter(
      ([name, field]) => told.includes(name) && (typeof field === 'string' || typeof field === 'number'),
    )
    const { code, message, sentence, problems } = error
    throw new RequestValidationError(problems, { code, message, sentence, told: Object.fromEntries(said) })
  }
}

function misfit(issues: readonly z.core.$ZodIssue[], value: unknown, root: string): RequestValidationError {
  const problems = toValidationProblems(issues, root, value)
  return new RequestValidationError(problems, { sentence: toSentences(problems, value, 1) })
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

function tryLongFields(shape: z.core.$ZodShape, body: object, root: string): void {
  const fields = new Map(Object.entries(body))
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
      throw misfit(issues, body, root)
    }
  }
}
