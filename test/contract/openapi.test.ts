/**
 * The table of endpoints names every route of the application and no other, and makes a document that is OpenAPI 3.1.
 *
 * A new route needs a row in `src/contract/endpoints/`.
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createOpenApiDocument, described } from '#plugins/docs/openapi.js'
import { INSTALLED } from '#plugins/index.js'
import { handlersLater, loadPlugins } from '#service/assembly/plugins.js'
import { createApp } from '#service/http/app.js'
import { patternOf } from '#service/http/handlers.js'
import { createPublicAddress } from '#service/http/public-address.js'
import { API_ROUTES, ROUTES, TABLE } from '../support/service/with-plugins.js'

/** Routes without their services: nothing is called here. */
async function boundRoutes(): Promise<string[]> {
  const services = new Proxy({}, { get: () => ({}) }) as never
  const app = createApp({
    services,
    table: TABLE,
    errorForms: [],
    witnesses: [],
    plugins: handlersLater(await loadPlugins(INSTALLED), new Map(), () => ({}) as never),
    baseModels: [],
    limits: { maxConcurrentRequests: 1, requestsPerMinute: null },
    version: '0',
    allowedHosts: [],
    allowedOrigins: [],
    publicAddress: createPublicAddress({ publicUrl: null, trustedProxies: [] }),
    closing: new AbortController().signal,
  } as never)
  return app.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`)
}

const document = createOpenApiDocument(TABLE, '0.0.0')
const operations = Object.entries(document['paths'] as JsonObject).flatMap(([path, methods]) =>
  Object.entries(methods as JsonObject).map(([method, operation]) => ({
    path,
    method,
    operation: operation as JsonObject,
  })),
)

describe('openapi.json', () => {
  it('has every route of the application but those of workers, nodes and other protocols, and no other', async () => {
    expect((await boundRoutes()).sort()).toEqual(ROUTES.map((route) => `${route.method} ${patternOf(route)}`).sort())
    for (const { path } of ROUTES.filter((route) => !API_ROUTES.includes(route)))
      expect(path).toMatch(/^\/internal\/(worker|engine)\/|^\/mcp$/)
    const listed = API_ROUTES.map(described).map(({ method, path }) => `${method} ${path}`)
    expect(operations.map(({ method, path }) => `${method} ${path}`).sort()).toEqual(listed.sort())
  })

  it('has unique operation ids and a sentence for each', () => {
    const ids = operations.map(({ operation }) => operation['operationId'])
    expect(new Set(ids).size).toBe(ids.length)
    for (const { operation } of operations) expect(operation['summary']).toMatch(/^[A-Z][^.]+$/)
  })

  it('has parameters for every name in a path, and schemas that are JSON Schema 2020-12', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    const compile = (schema: unknown) => ajv.compile(schema as object)
    for (const { path, operation } of operations) {
      const parameters = (operation['parameters'] ?? []) as { name: string; in: string; schema: object }[]
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      expect(parameters.filter((each) => each.in === 'path').map(({ name }) => name)).toEqual(named)
      for (const { schema } of parameters) compile(schema)
      const responses = Object.values(operation['responses'] as JsonObject) as {
        content?: Record<string, { schema?: object }>
      }[]
      const body = operation['requestBody'] as { content: Record<string, { schema?: object }> } | undefined
      for (const { content = {} } of [...responses, ...(body === undefined ? [] : [body])]) {
        for (const { schema } of Object.values(content))
          if (schema !== undefined && !('$ref' in schema)) compile(schema)
      }
    }
  })

  it('says of every parameter what it means', () => {
    const silent = operations.flatMap(({ path, method, operation }) =>
      ((operation['parameters'] ?? []) as { name: string; description?: string }[])
        .filter(({ description }) => !/^[A-Z`].*[^.]$/.test(description ?? ''))
        .map(({ name }) => `${method} ${path}: ${name}`),
    )
    expect(silent).toEqual([])
  })

  it('leaves no reference open', () => {
    const schemas = (document['components'] as { schemas: JsonObject }).schemas
    for (const [, name] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      expect(Object.keys(schemas).map((each) => `components/schemas/${each}`)).toContain(name)
    }
  })
})
