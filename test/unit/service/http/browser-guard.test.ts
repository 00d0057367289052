/**
 * Which pages may call the server: its own, by scheme, host and port, and by which names it may be called.
 */
import { Hono } from 'hono'
import { expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import type { AppEnvironment } from '#service/http/environment.js'
import { browserGuard } from '#service/http/middleware/browser-guard.js'
import { expectCode } from '../../../support/expect-code.js'

const app = new Hono<AppEnvironment>()
app.use('*', browserGuard({ allowedHosts: ['Train.example'] }))
app.get('/', (c) => c.text('here'))
app.onError((error, c) => c.text(error instanceof AppError ? error.code : 'other', 403))

async function ask(headers: Readonly<Record<string, string>>): Promise<string> {
  const response = await app.request('http://localhost/', { headers })
  expect(response.headers.has('access-control-allow-origin')).toBe(false)
  return await response.text()
}

it.each([
  ['localhost:8642', 'http://localhost:8642', undefined],
  ['LOCALHOST:8642', 'http://localhost:8642', undefined],
  ['[::1]:8642', 'http://[::1]:8642', undefined],
  ['train.example', 'https://train.example', undefined],
  ['train.example', 'https://train.example:443', 'https'],
  ['train.example', 'http://train.example', 'http'],
  ['train.example:8443', 'https://train.example:8443', 'https'],
])('%s is the host of the page %s', async (host, origin, protocol) => {
  expect(await ask({ host, origin, ...(protocol === undefined ? {} : { 'x-forwarded-proto': protocol }) })).toBe('here')
})

it.each([
  ['localhost:8642', 'http://localhost:3000', undefined],
  ['localhost:8642', 'http://localhost', undefined],
  ['localhost:8642', 'http://127.0.0.1:8642', undefined],
  ['localhost:8642', 'http://localhost.evil.example:8642', undefined],
  ['localhost:8642', 'http://localhost:8642@evil.example', undefined],
  ['train.example', 'https://train.example:8443', undefined],
  ['train.example', 'http://train.example', 'https'],
  ['train.example', 'http://train.example:443', undefined],
  ['train.example', 'ftp://train.example', undefined],
  ['train.example', 'null', undefined],
  ['train.example', '', undefined],
])('%s is not the host of the page %s', async (host, origin, protocol) => {
  const headers = { host, origin, ...(protocol === undefined ? {} : { 'x-forwarded-proto': protocol }) }
  expect(await ask(headers)).toBe('forbidden_origin')
})

it('a name that it is not called by is refused', async () => {
  expect(await ask({ host: 'evil.example' })).toBe('forbidden_host')
  expect(await ask({ host: 'train.example' })).toBe('here')
})

it("the pages of a proxy's address are own ones, whatever `Host` it sends", async () => {
  const behindProxy = new Hono<AppEnvironment>()
  behindProxy.use('*', browserGuard({ allowedHosts: [], publicOrigin: 'https://train.example' }))
  behindProxy.get('/', (c) => c.text('here'))
  behindProxy.onError((error, c) => c.text(error instanceof AppError ? error.code : 'other', 403))
  const from = async (origin: string) =>
    (await behindProxy.request('http://localhost/', { headers: { host: '127.0.0.1:8642', origin } })).text()
  expect(await from('https://train.example')).toBe('here')
  expect(await from('http://train.example')).toBe('forbidden_origin')
  expect(await from('https://train.example:8443')).toBe('forbidden_origin')
})

it.each(['app.example', 'https://app.example/path', 'https://me@app.example', 'null', '', 'file:///page.html'])(
  'an allowed origin "%s" is refused by name',
  async (origin) => {
    await expectCode(
      () => browserGuard({ allowedHosts: [], allowedOrigins: [origin] }),
      'invalid_setting',
      'allowedOrigins',
    )
  },
)
