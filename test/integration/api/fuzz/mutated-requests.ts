/**
 * Requests that nearly fit the schemas of a route, and the same with something wrong in them.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { Rng } from '#base/util/rng.js'
import type { Key } from '#contract/endpoints/endpoint.js'
import type { Route } from '#contract/endpoints/table.js'
import { toSchema } from '#plugins/docs/openapi.js'
import { createChooser } from './chooser.js'
import { EXAMPLES } from './examples.js'
import { createByteMutator } from './mutated-bytes.js'

export interface MutatedRequest {
  readonly method: string
  /** Path and query as they go over the wire. */
  readonly address: string
  readonly body?: string | Uint8Array
  /** Content type. */
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** What exists, by the names that paths and bodies have for it; a function says it anew each time. */
export type KnownNames = Readonly<Record<string, JsonValue | (() => JsonValue)>>

/** Names of what exists, as a request has them. */
export function namedValue(known: KnownNames, name: string): JsonValue | undefined {
  const value = Object.hasOwn(known, name) ? known[name] : undefined
  return typeof value === 'function' ? value() : value
}

const NASTY: readonly JsonValue[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e308,
  -0,
  2 ** 53,
  '',
  ' ',
  'a'.repeat(3000),
  '\u0000',
  '\u202e',
  '../../etc/passwd',
  '__proto__',
  '%s%n',
  "' or 1=1 --",
  '{{7*7}}',
  '🙂',
  'NaN',
  '-1',
  'true',
  [],
  [[]],
  [null],
  {},
  { constructor: {} },
  { $ref: '#' },
]

const UPLOAD_TYPES = ['multipart/form-data; boundary=x', 'application/octet-stream', 'text/plain'] as const

/** An example with what exists in the place of its nulls. */
function withNames(example: JsonObject, known: KnownNames): JsonObject {
  const named = (value: JsonValue, name: string) => (value === null ? (namedValue(known, name) ?? null) : value)
  return Object.fromEntries(Object.entries(example).map(([name, value]) => [name, named(value, name)]))
}

/** Schemas of what is sent, each written once. */
const schemas = new Map<Parameters<typeof toSchema>[0], JsonObject>()

export function schemaOf(schema: Parameters<typeof toSchema>[0]): JsonObject {
  const known = schemas.get(schema) ?? (toSchema(schema, 'input') as JsonObject)
  schemas.set(schema, known)
  return known
}

export type Mutator = ReturnType<typeof createMutator>

export function createMutator(rng: Rng) {
  const chooser = createChooser(rng)
  const { below, pick, chance } = chooser
  const bytes = createByteMutator(chooser)

  /** A value that fits a schema, as far as it is said there. */
  function fitting(schema: JsonValue | undefined, known: KnownNames, depth = 0): JsonValue {
    if (!isJsonObject(schema) || depth > 6) return pick(NASTY)
    if (schema['const'] !== undefined) return schema['const']
    if (Array.isArray(schema['enum'])) return pick(schema['enum'] as readonly JsonValue[])
    const choices = schema['anyOf'] ?? schema['oneOf']
    if (Array.isArray(choices)) return fitting(pick(choices as readonly JsonValue[]), known, depth)
    switch (schema['type']) {
      case 'string':
        return schema['format'] === 'uuid'
          ? (namedValue(known, 'model_id') ?? '')
          : pick(['a', 'user', 'fuzzed', 'hello there', '2026-01-01'])
      case 'integer':
        return Math.max(Number(schema['minimum'] ?? 0), -1000) + below(5)
      case 'number':
        return Number(schema['minimum'] ?? 0) + rng.uniform()
      case 'boolean':
        return chance(0.5)
      case 'array':
        return Array.from({ length: below(3) + Number(schema['minItems'] ?? 0) }, () =>
          fitting(schema['items'], known, depth + 1),
        )
      case 'object':
        return fittingObject(schema, known, depth)
      default:
        return pick(NASTY)
    }
  }

  function fittingObject(schema: JsonObject, known: KnownNames, depth: number): JsonObject {
    const properties = isJsonObject(schema['properties']) ? schema['properties'] : {}
    const required = Array.isArray(schema['required']) ? (schema['required'] as readonly JsonValue[]) : []
    const names = Object.keys(properties).filter((name) => required.includes(name) || chance(0.3))
    const value = (name: string): JsonValue => {
      const existing = namedValue(known, name)
      return existing !== undefined && chance(0.6) ? existing : fitting(properties[name], known, depth + 1)
    }
    return Object.fromEntries(names.map((name) => [name, value(name)]))
  }

  /** The same with something wrong in it. */
  function mutated(value: JsonValue): JsonValue {
    if (chance(0.2)) return pick(NASTY)
    if (Array.isArray(value)) {
      const list = [...(value as readonly JsonValue[])]
      if (list.length === 0 || chance(0.2)) return [...list, pick(NASTY)]
      const at = below(list.length)
      return list.with(at, mutated(list[at] as JsonValue))
    }
    if (!isJsonObject(value)) return pick(NASTY)
    const names = Object.keys(value)
    if (names.length === 0 || chance(0.15))
      return { ...value, [pick(['__proto__', 'constructor', 'x', ''])]: pick(NASTY) }
    const name = pick(names)
    if (chance(0.2)) return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
    return { ...value, [name]: mutated(value[name] as JsonValue) }
  }

  function upload(): Pick<MutatedRequest, 'body' | 'type'> {
    const type = pick(UPLOAD_TYPES)
    const rows = pick([
      '',
      'bytes',
      '{"messages":[]}\n',
      '\ufeff{}\r\n{',
      '{"messages":[{"role":"user","content":"a"}]}',
    ])
    if (type !== UPLOAD_TYPES[0] || chance(0.3)) return { body: rows, type }
    const part = (head: string, value: string) => `--x\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`
    const purpose = part('name="purpose"', String(pick(['fine-tune', 'batch', ...NASTY])))
    const file = part(`name="file"; filename="${pick(['a.jsonl', '../a', '\u202e', ''])}"`, rows)
    return { body: pick([`${purpose}${file}--x--\r\n`, `${file}${purpose}--x--\r\n`, `${purpose}${file}`]), type }
  }

  function bodyOf(route: Route, known: KnownNames): Pick<MutatedRequest, 'body' | 'type'> {
    if (route.body === undefined) return chance(0.1) ? { body: '{}', type: 'application/json' } : {}
    if (route.body === 'upload') return upload()
    if (route.body === 'application/x-protobuf') {
      const place = { run: String(namedValue(known, 'model_id')), seq: Number(namedValue(known, 'seq_id')) }
      return { body: bytes.loss(place), type: chance(0.97) ? route.body : 'application/json' }
    }
    if (typeof route.body === 'string') return { body: bytes.bytes(below(200)), type: route.body }
    const examples = EXAMPLES[`${route.method} ${route.path}` as Key]
    const fits =
      examples !== undefined && chance(0.7)
        ? withNames(pick(examples), known)
        : fitting(schemaOf(route.body.schema), known)
    const text = JSON.stringify(chance(0.3) ? fits : mutated(chance(0.3) ? mutated(fits) : fits))
    return {
      body: chance(0.05) ? text.slice(0, below(text.length + 1)) : text,
      type: chance(0.97) ? 'application/json' : pick(['text/plain', 'application/json; charset=utf-16', '']),
    }
  }

  function addressOf(route: Route, known: KnownNames): string {
    const nasty = () =>
      pick(['none', '..', '%25', '%', '%00', 'a'.repeat(500), '-1', '__proto__', '%F0%9F%99%82', '%ff'])
    const path = route.path.replaceAll(/\{\+?(\w+)\}/g, (_, name: string) =>
      chance(0.7) ? encodeURIComponent(String(namedValue(known, name) ?? 'none')) : nasty(),
    )
    if (route.query === undefined && chance(0.9)) return path
    const query = route.query === undefined ? {} : fitting(schemaOf(route.query), known)
    const changed = chance(0.5) ? query : mutated(query)
    const pairs = Object.entries(isJsonObject(changed) ? changed : { limit: changed })
    const text = (value: JsonValue) => encodeURIComponent(typeof value === 'string' ? value : JSON.stringify(value))
    return `${path}?${pairs.map(([name, value]) => `${encodeURIComponent(name)}=${text(value)}`).join('&')}`
  }

  return {
    ...chooser,
    bytes,
    fitting,
    mutated,
    /** The next request of a route. */
    next(route: Route, known: KnownNames): MutatedRequest {
      return { method: route.method, address: addressOf(route, known), ...bodyOf(route, known) }
    },
  }
}
