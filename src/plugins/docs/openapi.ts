/**
 * The table of endpoints as an OpenAPI 3.1 document. Schemas come from the ones that requests are checked with, so they cannot
 * differ; numbers and booleans are also taken as text, which JSON Schema does not say here.
 *
 * Source: OpenAPI Specification 3.1.0; its schemas are JSON Schema 2020-12.
 */
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import type { EndpointTable, Route } from '#contract/endpoints/table.js'
import { errorBodySchema } from '#contract/wire/errors.js'
import { describeParameter } from './parameters.js'

const ERRORS: Readonly<Record<number, string>> = {
  400: 'The request cannot be answered: a field is wrong, or what it asks for is not supported',
  401: 'No key, or one that is not known',
  403: 'The key, the host or the page may not do this',
  404: 'Not found, or it belongs to somebody else',
  405: 'Another method',
  408: 'The body came too slowly',
  409: 'It exists, is in use, or is finished',
  413: 'The body is too large',
  415: 'The body has another media type',
  422: 'A field is wrong: `detail` names each one',
  429: 'Too many at once: repeat after `Retry-After` seconds',
  431: 'The address and the headers together are too large',
  500: 'A fault of the server, told in its log under the request id',
  501: 'Known and not available here',
  503: 'Starting, stopping or full: repeat after `Retry-After` seconds',
}
const ON_ALL = [403, 500, 503]
const WITH_KEY = [400, 401, 429]
// a cursor or a filter may name what is not there
const WITH_QUERY = [400, 404, 422, 431]
const WITH_ID = [404, 409, 422]
const WITH_BODY = [400, 404, 408, 409, 413, 415, 422, 429, 501]

/** Makes the document. @param version of this program */
export function createOpenApiDocument(table: EndpointTable, version: string): JsonObject {
  const paths: Record<string, Record<string, JsonValue>> = {}
  for (const route of table.apiRoutes) {
    const { path, method } = described(route)
    const methods = paths[path] ?? {}
    methods[method] = describeRoute(route)
    paths[path] = methods
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Trainyard',
      version,
      summary: 'A self-hosted post-training service',
      description:
        'Create a model from a base model, chat with it, train it by reinforcement learning or on examples, and chat with the trained checkpoint. Unknown fields are ignored, null means absent, and numbers and booleans may come as text. The pages below /docs say what the fields mean.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: table.sections.map((name) => ({ name })),
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        header: { type: 'apiKey', in: 'header', name: 'X-Api-Key' },
        basic: { type: 'http', scheme: 'basic', description: 'The key as password, as the wandb client sends it' },
      },
      schemas: { Error: toSchema(errorBodySchema, 'output') },
    },
  }
}

/** Method and path as the document writes them. */
export function described({ method, path }: Pick<Route, 'method' | 'path'>): {
  readonly method: string
  readonly path: string
} {
  return { method: method.toLowerCase(), path: path.replaceAll('{+', '{') }
}

function describeRoute(route: Route): JsonObject {
  const parameters = [...pathParameters(route), ...queryParameters(route)]
  return {
    operationId: operationId(route),
    tags: [String(route.tag)],
    summary: route.summary,
    ...(route.scope === 'open' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined ? {} : { requestBody: requestBody(route) }),
    responses: responses(route),
  }
}

function operationId(route: Route): string {
  const { method, path } = described(route)
  return `${method}${path.replaceAll(/[^a-z0-9]+/gi, '_').replace(/_$/, '')}`
}

function pathParameters(route: Route): JsonValue[] {
  return [...route.path.matchAll(/\{\+?(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    ...descriptionOf(route, 'path', name),
    schema: { type: 'string', minLength: 1 },
  }))
}

function descriptionOf(route: Route, place: 'path' | 'query', name: string): JsonObject {
  const description = describeParameter(route, place, name)
  return description === undefined ? {} : { description }
}

function queryParameters(route: Route): JsonValue[] {
  const { query } = route
  if (query === undefined) return []
  const schema = toSchema(query, 'input')
  const required = (schema['required'] ?? []) as readonly string[]
  return Object.entries((schema['properties'] ?? {}) as JsonObject).map(([name, property]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...descriptionOf(route, 'query', name),
    schema: property,
  }))
}

function requestBody({ body }: Route): JsonObject {
  if (body === 'upload') {
    const file: JsonObject = { type: 'string', contentMediaType: 'application/octet-stream' }
    const form = {
      type: 'object',
      properties: { file, purpose: { type: 'string' }, artifact: { type: 'string' } },
      required: ['file'],
    }
    return { required: true, content: { 'multipart/form-data': { schema: form }, 'application/octet-stream': {} } }
  }
  if (typeof body === 'string' || body === undefined) return { required: true, content: { [String(body)]: {} } }
  return { required: true, content: { 'application/json': { schema: toSchema(body.schema, 'input') } } }
}

function responses(route: Route): JsonObject {
  const answer = { description: 'Done', ...(route.answer === 'nothing' ? {} : { content: contentOf(route) }) }
  const answers: Record<string, JsonValue> = { 200: answer }
  for (const status of statusesOf(route)) {
    answers[status] = {
      description: ERRORS[status] ?? 'Refused',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    }
  }
  for (const status of route.alsoWith ?? []) {
    const what = status < 300 ? 'is not complete yet' : 'is broken'
    answers[status] = { ...answer, description: `The same, of what ${what}` }
  }
  return answers
}

function contentOf({ answer, stream }: Route): JsonObject {
  const plain =
    typeof answer === 'string' ? { [answer]: {} } : { 'application/json': { schema: toSchema(answer, 'output') } }
  if (stream === undefined) return plain
  // each event's data is one object of this schema; OpenAPI has no words for that before 3.2, and readers take a type for an event's own
  return { ...plain, 'text/event-stream': { schema: { description: 'Server-sent events' } } }
}

/** Statuses of refusals, ascending. */
export function statusesOf(route: Route): readonly number[] {
  const statuses = new Set(ON_ALL)
  const add = (more: readonly number[]) => more.forEach((status) => void statuses.add(status))
  if (route.scope !== 'open') add(WITH_KEY)
  if (route.query !== undefined) add(WITH_QUERY)
  if (route.path.includes('{')) add(WITH_ID)
  if (route.body !== undefined) add(WITH_BODY)
  add(route.refusals ?? [])
  for (const status of route.alsoWith ?? []) statuses.delete(status)
  return [...statuses].sort((a, b) => a - b)
}

/** A schema as JSON Schema: what may be sent (`input`) or what comes back (`output`). */
export function toSchema(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const {
    $schema: _,
    $defs,
    ...rest
  } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    target: 'draft-2020-12',
    override: ({ jsonSchema }) => {
      // answers may gain fields; a client that refuses them would break with every version
      if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
    },
  }) as Record<string, JsonValue>
  return ($defs === undefined ? rest : (inlineDefinitions(rest, $defs as JsonObject) as JsonObject)) as JsonObject
}

/** Definitions of one schema would be looked for at the document's root; recursive ones are any JSON value. */
function inlineDefinitions(value: JsonValue, definitions: JsonObject, above: readonly string[] = []): JsonValue {
  if (Array.isArray(value)) return value.map((item: JsonValue) => inlineDefinitions(item, definitions, above))
  if (typeof value !== 'object' || value === null) return value
  const object = value as JsonObject
  const reference = object['$ref']
  if (typeof reference === 'string') {
    const name = reference.replace('#/$defs/', '')
    return above.includes(name) ? {} : inlineDefinitions(definitions[name] ?? {}, definitions, [...above, name])
  }
  return Object.fromEntries(
    Object.entries(object).map(([key, item]) => [key, inlineDefinitions(item, definitions, above)]),
  )
}
