/**
 * An endpoint is added by a row and a handler: in a copy of the sources, whose types are checked and whose service is asked. Route, scope,
 * limits and check of the body, the OpenAPI document and the types of a client's call all come from the row.
 */
import { symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copySources, type SourceCopy } from '../../support/source-copy.js'

const ROW = `'POST /v1/preview/echoes/{name}': {
    ...ours,
    summary: 'Say it again',
    scope: 'write',
    query: z.object({ loud: z.string().optional() }),
    body: small(z.object({ text: z.string().max(9), count: z.number().nullish() })),
    answer: z.object({ name: z.string(), said: z.string() }),
  },
  `
const HANDLER = `'POST /v1/preview/echoes/{name}': async ({ principal, params, query, body }) => {
      const { text } = await body()
      const entity: string = principal.entity
      return { name: params.name + '@' + entity, said: query().loud === 'yes' ? text.toUpperCase() : text }
    },
    `
/** A client's call has the types of the row. */
const CALL = `/** Calls it. */
import { createCalls } from './sdk/client/calls.js'
import { createHttp } from './sdk/client/http.js'
import { objectOf, text } from './sdk/client/shape.js'

const key = 'POST /v1/preview/echoes/{name}'
const check = objectOf<{ name: string; said: string }>({ name: text, said: text })

export async function echo(baseUrl: string, apiKey: string): Promise<string> {
  const { ask } = createCalls(createHttp({ baseUrl, apiKey }))
  return (await ask(key, check, { ids: ['a/b'], query: { loud: 'yes' }, json: { text: 'hello' } })).said
}

// @ts-expect-error there is no such endpoint
export const wrong = () => createCalls(createHttp({ baseUrl: '', apiKey: null })).ask('POST /v1/preview/echos', check, {})
`
/** The service is asked over its port, and each line of output is one answer. */
const ASK = `
  import { createService } from './dist/src/index.js'
  import { readFileSync } from 'node:fs'
  import { echo } from './dist/src/echo.js'
  const service = await createService({ dataDir: 'data', port: 0, logLevel: 'error' })
  const key = readFileSync(service.apiKeyFile, 'utf8').trim()
  const post = async (path, bearer, body) => {
    const headers = { authorization: 'Bearer ' + bearer, 'content-type': 'application/json' }
    const answer = await fetch(service.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return [answer.status, await answer.json()]
  }
  const reader = (await post('/v1/preview/keys', key, { scope: 'read' }))[1].key
  const path = '/v1/preview/echoes/me'
  const answers = {
    stranger: (await post(path, 'nobody', {}))[0],
    reader: (await post(path, reader, { text: 'x' }))[1].error.message,
    long: await post(path, key, { text: 'much too long' }).then(([status, body]) => [status, body.detail[0].loc]),
    large: (await post(path, key, { text: 'x', list: Array(60000).fill([1]) }))[0],
    right: await post(path, key, { text: 'hello' }),
    called: await echo(service.url, key),
    described: (await (await fetch(service.url + '/openapi.json')).json()).paths['/v1/preview/echoes/{name}'].post.summary,
    listed: (await (await fetch(service.url + '/')).json()).endpoints.includes('POST /v1/preview/echoes/:name'),
  }
  await service.close(10_000)
  console.log(JSON.stringify(answers))
`

let copy: SourceCopy
beforeAll(async () => {
  copy = await copySources()
  await symlink(resolve(import.meta.dirname, '../../../src/assets'), join(copy.path, 'src/assets'))
  await copy.insertBefore(
    'src/contract/endpoints/server.ts',
    `import { endpoints }`,
    `import { small } from './bodies.js'\n`,
  )
  await copy.insertBefore('src/contract/endpoints/server.ts', `'GET /version': {`, ROW)
})
afterAll(() => copy?.remove())

test('a row without a handler does not compile', async () => {
  const complaints = await copy.build()
  expect(complaints).toContain('src/service/http/app.ts')
  expect(complaints).toContain('"POST /v1/preview/echoes/{name}"')
})

test('with one it is served, guarded, checked, described and called', async () => {
  await copy.insertBefore('src/service/http/routes/root.ts', `'GET /version': () =>`, HANDLER)
  await copy.write('src/echo.ts', CALL)
  expect(await copy.build()).toBe('')
  const asked = await copy.evaluate(ASK)
  expect(asked.stderr).toBe('')
  expect(JSON.parse(asked.stdout)).toEqual({
    stranger: 401,
    reader: 'this API key has scope "read", this request needs "write"',
    long: [422, ['body', 'text']],
    large: 413,
    right: [200, { name: 'me@local', said: 'hello' }],
    called: 'HELLO',
    described: 'Say it again',
    listed: true,
  })
})
