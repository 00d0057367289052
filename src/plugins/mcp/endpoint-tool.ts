/**
 * A row of the table of endpoints → a tool: its parameters are the path's, the query's and the body's.
 */
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { EndpointTable, Route } from '#contract/endpoints/table.js'
import { JOB_DEFINITIONS } from '#contract/jobs/kinds.js'
import { advisedOptions, openPasses, sizeDefaults } from '#contract/jobs/size-defaults.js'
import { type KeyScope, scopeContains } from '#contract/wire/access/key-words.js'
import { EXAMPLES_KIND, type JobKind } from '#contract/wire/job-words.js'
import { toSchema } from '#plugins/docs/openapi.js'
import { describeParameter } from '#plugins/docs/parameters.js'
import { askFor, pause, type Tool, type ToolCall, ToolError } from './tool.js'

// What a job runs with where an agent says nothing: as the command line chooses it, by the size of the base model and the rows at hand. The
// API's own defaults are the hosted service's, which are for models of billions of parameters.

/** @returns the call with the options of its job filled in; what was given stays */
async function withDefaults(kind: JobKind, given: JsonObject, call: ToolCall): Promise<JsonObject> {
  const { root } = JOB_DEFINITIONS[kind]
  const options = given[root] ?? {}
  // another type is the endpoint's to refuse
  if (!isJsonObject(options)) return given
  const model = (await askFor(
    call,
    'GET',
    `/v1/preview/models/${encodeURIComponent(String(given['model_id']))}`,
  )) as JsonObject
  const name = String(model['base_model']).split('/').map(encodeURIComponent).join('/')
  const base = (await askFor(call, 'GET', `/v1/preview/base-models/${name}`).catch(() => ({}))) as JsonObject
  const parameters = typeof base['parameters'] === 'number' ? base['parameters'] : null
  const chosen: JsonObject = { ...options, ...advisedOptions(kind, options) }
  const rows = kind !== EXAMPLES_KIND ? null : await countRows(String(given['training_data_url']), call)
  const hasValidation = (given['validation_data_url'] ?? null) !== null
  // how often rows are gone through is left open by supervised jobs alone
  const passes = rows === null ? {} : openPasses(chosen, { ...rows, parameters, hasValidation })
  const timed: JsonObject = { ...chosen, ...passes }
  return { ...given, [root]: { ...timed, ...sizeDefaults(kind, timed, parameters) } }
}

/** Lines and bytes of an uploaded file, without holding it; null for data that lie elsewhere. */
async function countRows(url: string, { ask, signal }: ToolCall): Promise<{ rows: number; bytes: number } | null> {
  if (!url.startsWith('file-')) return null
  const response = await ask(`/v1/files/${encodeURIComponent(url)}/content`, { signal })
  if (!response.ok || response.body === null) return null
  let rows = 0
  let bytes = 0
  let isOpen = false
  for await (const part of response.body as AsyncIterable<Uint8Array>) {
    bytes += part.length
    for (const byte of part) {
      if (byte === NEWLINE && isOpen) rows += 1
      isOpen = byte !== NEWLINE
    }
  }
  return { rows: rows + Number(isOpen), bytes }
}

const NEWLINE = 10

/** A tool that is an endpoint. */
export interface EndpointTool {
  readonly name: string
  /** `GET /v1/preview/models`. */
  readonly key: string
  /** When to use it, in a sentence or two. */
  readonly use: string
  /** Of the body what is offered; default: all of it. */
  readonly fields?: readonly string[]
  /** What a field means here, or which tool says what stands in it. */
  readonly about?: Readonly<Record<string, string>>
  /** Its answer is a thing that goes on: how it is watched to its end. */
  readonly watch?: Watch
  /** Of a job that it makes: options that are left out are chosen for its model and rows. */
  readonly kind?: JobKind
}

interface Watch {
  /** Where it is read; `{id}` is the answer's own id, other parameters are the call's. */
  readonly path: string
  readonly ended: readonly string[]
  /** How far it is. */
  readonly of?: (thing: JsonObject) => { readonly done: number; readonly total: number | null }
}

/** Longest wait of one call, seconds: hosts of agents give up on longer ones. */
const MOST_WAIT_S = 300
/** Between two looks, of short work and of long: each counts among what the key may ask. */
const LOOK_EVERY_MS = { first: 1000, later: 3000, laterFromMs: 15_000 }
const WAIT: JsonObject = {
  type: 'integer',
  minimum: 0,
  maximum: MOST_WAIT_S,
  description: 'Wait so many seconds for its end and answer as it is then; default 0: answer at once',
}

/** The tool of a row; null where the service has no such endpoint, or the key may not ask it. */
export function endpointTool(row: EndpointTool, table: EndpointTable, scope: KeyScope): Tool | null {
  const route = table.routes.find(({ method, path }) => `${method} ${path}` === row.key)
  if (
    route === undefined ||
    (route.scope !== 'open' && route.scope !== 'attempt' && !scopeContains(scope, route.scope))
  )
    return null
  const parts = partsOf(route, row)
  const { watch } = row
  return {
    name: row.name,
    description: row.use,
    inputSchema: {
      type: 'object',
      properties: {
        ...parts.path.properties,
        ...parts.query.properties,
        ...parts.body.properties,
        ...(watch === undefined ? {} : { wait_seconds: WAIT }),
      },
      required: [...parts.path.required, ...parts.query.required, ...parts.body.required],
      additionalProperties: false,
    },
    isReadOnly: route.method === 'GET',
    isDestructive: route.method === 'DELETE',
    run: async (given, call) => {
      checkNames(row.name, given, [parts.path, parts.query, parts.body], watch !== undefined)
      const filled = row.kind === undefined ? given : await withDefaults(row.kind, given, call)
      const answer = await askFor(
        call,
        route.method,
        addressOf(route, parts.query, given),
        bodyOf(route, parts, filled),
      )
      const seconds = Math.min(Number(given['wait_seconds'] ?? 0), MOST_WAIT_S)
      return watch === undefined || !(seconds > 0) ? answer : watchUntil(answer, { watch, given, seconds, call })
    },
  }
}

interface Fields {
  readonly properties: JsonObject
  readonly required: readonly string[]
}

interface Parts {
  readonly path: Fields
  readonly query: Fields
  readonly body: Fields
}

const PARAMETER = /\{\+?(\w+)\}/g

function partsOf(route: Route, { fields, about = {} }: EndpointTool): Parts {
  const names = [...route.path.matchAll(PARAMETER)].map(([, name = '']) => name)
  const described = (schema: JsonValue, text: string | undefined): JsonObject => ({
    ...(schema as JsonObject),
    ...(text === undefined ? {} : { description: text }),
  })
  const path = names.map((name) => [
    name,
    described({ type: 'string' }, about[name] ?? describeParameter(route, 'path', name)),
  ])
  const query = fieldsOf(route.query === undefined ? {} : toSchema(route.query, 'input'))
  const body = fieldsOf(typeof route.body === 'object' ? toSchema(route.body.schema, 'input') : {}, fields)
  return {
    path: { properties: Object.fromEntries(path) as JsonObject, required: names },
    query: {
      ...query,
      properties: mapped(query.properties, (schema, name) =>
        described(schema, about[name] ?? describeParameter(route, 'query', name)),
      ),
    },
    body: { ...body, properties: mapped(body.properties, (schema, name) => described(schema, about[name])) },
  }
}

function fieldsOf(schema: JsonObject, wanted?: readonly string[]): Fields {
  const all = (schema['properties'] ?? {}) as JsonObject
  const names = wanted ?? Object.keys(all)
  return {
    properties: Object.fromEntries(names.flatMap((name) => (all[name] === undefined ? [] : [[name, all[name]]]))),
    required: ((schema['required'] ?? []) as readonly string[]).filter((name) => names.includes(name)),
  }
}

const mapped = (object: JsonObject, change: (value: JsonValue, name: string) => JsonValue): JsonObject =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value as JsonValue, name)]))

/** A name that nobody reads would be taken for one with effect. */
function checkNames(tool: string, given: JsonObject, parts: readonly Fields[], canWait: boolean): void {
  const known = [...parts.flatMap(({ properties }) => Object.keys(properties)), ...(canWait ? ['wait_seconds'] : [])]
  const unknown = Object.keys(given).filter((name) => !known.includes(name))
  const missing = parts.flatMap(({ required }) => required).filter((name) => given[name] === undefined)
  if (unknown.length > 0)
    throw new ToolError(
      `${tool} has no parameter ${unknown.join(', ')}`,
      'invalid_arguments',
      `it takes ${known.join(', ')}`,
    )
  if (missing.length > 0)
    throw new ToolError(`${tool} needs ${missing.join(', ')}`, 'invalid_arguments', `it takes ${known.join(', ')}`)
}

function addressOf(route: Route, query: Fields, given: JsonObject): string {
  const path = route.path.replaceAll(/\{(\+?)(\w+)\}/g, (_, rest: string, name: string) => {
    const value = String(given[name])
    return rest === '' ? encodeURIComponent(value) : value.split('/').map(encodeURIComponent).join('/')
  })
  const pairs = Object.keys(query.properties).flatMap((name) => {
    const value = given[name]
    return value === undefined || value === null ? [] : [[name, String(value)]]
  })
  return pairs.length === 0 ? path : `${path}?${new URLSearchParams(pairs as [string, string][]).toString()}`
}

function bodyOf(route: Route, { body }: Parts, given: JsonObject): JsonObject | null {
  if (typeof route.body !== 'object') return null
  return Object.fromEntries(
    Object.keys(body.properties).flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])),
  )
}

interface Watching {
  readonly watch: Watch
  readonly given: JsonObject
  readonly seconds: number
  readonly call: ToolCall
}

async function watchUntil(first: JsonValue, { watch, given, seconds, call }: Watching): Promise<JsonValue> {
  const id = (first as JsonObject)['id'] as string
  const path = watch.path.replaceAll(PARAMETER, (_, name: string) =>
    encodeURIComponent(name === 'id' ? id : String(given[name])),
  )
  const start = performance.now()
  let thing = first as JsonObject
  let told = ''
  for (;;) {
    const passedMs = performance.now() - start
    if (watch.ended.includes(String(thing['status'])) || passedMs >= seconds * 1000) break
    const { done, total } = watch.of?.(thing) ?? { done: 0, total: null }
    const now = `${String(thing['status'])} ${done}`
    if (now !== told) await call.progress(done, total, String(thing['status']))
    told = now
    await pause(passedMs < LOOK_EVERY_MS.laterFromMs ? LOOK_EVERY_MS.first : LOOK_EVERY_MS.later, call.signal)
    thing = (await askFor(call, 'GET', path)) as JsonObject
  }
  return thing
}
