/**
 * Our own `fetch` behaves like the platform's where our client relies on it; each case runs both.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { captureFetch } from '#plugins/rl-library/capture.js'
import { createHttp } from '#sdk/client/http.js'
import { type Fetch, getJson, lightFetch } from '#sdk/client/light-fetch.js'
import { Trajectory } from '#sdk/rl/trajectory.js'

let server: Server
let url: string

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === '/redirect') return response.writeHead(302, { location: '/echo' }).end()
    if (request.url?.startsWith('/empty')) return response.writeHead(204).end()
    if (request.url === '/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      // the rest never comes
      response.write('data: first\n\n')
      return
    }
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      const { authorization } = request.headers
      response.writeHead(request.method === 'DELETE' ? 404 : 200, { 'x-request-id': 'req_1' })
      response.end(JSON.stringify({ method: request.method, body, authorization }))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const both: readonly (readonly [string, Fetch])[] = [
  ['light', lightFetch],
  ['platform', fetch],
]

describe.each(both)('%s fetch', (_name, send) => {
  test('sends text and headers; status, headers and body come back', async () => {
    const init = { method: 'POST', headers: { authorization: 'Bearer k' }, body: 'zwölf' }
    const response = await send(`${url}/echo`, init)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-request-id')).toBe('req_1')
    expect(await response.json()).toEqual({ method: 'POST', body: 'zwölf', authorization: 'Bearer k' })
    const missing = await send(`${url}/echo`, { method: 'DELETE' })
    expect([missing.ok, missing.status]).toEqual([false, 404])
  })
  test('an answer without a body, and a form', async () => {
    expect((await send(`${url}/empty`, {})).body).toBeNull()
    const form = new FormData()
    form.set('field', 'value')
    const echo = await (await send(`${url}/echo`, { method: 'POST', body: form })).json()
    expect(echo).toMatchObject({ body: expect.stringContaining('name="field"') })
  })
  test('a redirect and a refused connection are type errors with a cause', async () => {
    await expect(send(`${url}/redirect`, { redirect: 'error' })).rejects.toMatchObject({
      name: 'TypeError',
      cause: { message: expect.stringContaining('unexpected redirect') },
    })
    await expect(send('http://127.0.0.1:1/', {})).rejects.toMatchObject({ name: 'TypeError', cause: expect.anything() })
  })
  test('an abort rejects with its reason, before the answer and in its middle', async () => {
    const early = new AbortController()
    early.abort(new Error('early'))
    await expect(send(`${url}/echo`, { signal: early.signal })).rejects.toThrow('early')
    const late = new AbortController()
    const response = await send(`${url}/stream`, { signal: late.signal })
    const reader = response.body?.getReader()
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('data: first\n\n')
    late.abort(new Error('late'))
    await expect(reader?.read()).rejects.toThrow()
  })
})

test('getJson reads any status', async () => {
  expect(await getJson(`${url}/echo`, new AbortController().signal)).toMatchObject({ method: 'GET' })
})

test('neither the client nor a recorded chat asks through the platform, which gives up after 300 seconds', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new Error('the platform was asked')))
  onTestFinished(() => void vi.unstubAllGlobals())
  const http = createHttp({ baseUrl: url, apiKey: 'k' })
  expect(await http.json({ method: 'POST', path: '/echo', json: { a: 1 } })).toMatchObject({ body: '{"a":1}' })
  const record = captureFetch(new Trajectory())
  const answer = record(`${url}/empty/chat/completions`, { method: 'POST', body: '{"messages":[]}' })
  expect((await answer).status).toBe(204)
})
