/**
 * The TCP server: what must be done before it answers, and the port it lets go when that fails.
 */
import { connect, createServer } from 'node:net'
import { Hono } from 'hono'
import { expect, it } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import type { AppEnvironment } from '#service/http/environment.js'
import { listen } from '#service/http/listen.js'
import { loopTurns } from '../../../support/until.js'

/** A port that was free a moment ago: a request must find it before `listen` has told it. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

it('holds requests back until it is prepared, then answers them', async () => {
  const events: string[] = []
  const app = new Hono<AppEnvironment>().get('/', (c) => {
    events.push('asked')
    return c.text('here')
  })
  const port = await freePort()
  const [bound, prepared] = [createDeferred<void>(), createDeferred<void>()]
  const listening = listen(app, { host: '127.0.0.1', port }, async () => {
    bound.resolve()
    await prepared.promise
    events.push('prepared')
  })
  await bound.promise
  const answer = fetch(`http://127.0.0.1:${port}/`)
  await loopTurns()
  expect(events).toEqual([])
  prepared.resolve()
  expect(await (await answer).text()).toBe('here')
  expect(events).toEqual(['prepared', 'asked'])
  await (await listening).close(0)
})

it('lets the port go when the preparation fails', async () => {
  const app = new Hono<AppEnvironment>()
  const address = { host: '127.0.0.1', port: await freePort() }
  const failing = listen(app, address, () => Promise.reject(new Error('no key')))
  await expect(failing).rejects.toThrow('no key')
  await (await listen(app, address)).close(0)
})

it('answers while requests end that were there before, and lets the port go behind them', async () => {
  const [came, held] = [createDeferred<void>(), createDeferred<void>()]
  const app = new Hono<AppEnvironment>()
    .get('/held', async (c) => {
      came.resolve()
      await held.promise
      return c.text('held')
    })
    .get('/', (c) => c.text('here'))
  const listening = await listen(app, { host: '127.0.0.1', port: 0 })
  const { url } = listening
  const answer = fetch(`${url}/held`)
  await came.promise
  let isClosed = false
  const closed = listening.close(600_000).then(() => {
    isClosed = true
  })
  expect(await (await fetch(url, { headers: { connection: 'close' } })).text()).toBe('here')
  expect(isClosed).toBe(false)
  held.resolve()
  expect(await (await answer).text()).toBe('held')
  await closed
  await expect(fetch(url)).rejects.toThrow()
})

it('ends at its deadline although clients go on connecting', async () => {
  const came = createDeferred<void>()
  const app = new Hono<AppEnvironment>().get('/held', async () => {
    came.resolve()
    return new Promise<Response>(() => undefined)
  })
  const listening = await listen(app, { host: '127.0.0.1', port: 0 })
  const held = fetch(`${listening.url}/held`).catch(() => 'cut')
  await came.promise
  const timer = setInterval(() => {
    const socket = connect(listening.port, '127.0.0.1')
    socket.on('error', () => undefined)
    // half a head
    socket.write('GET / HTTP/1.1\r\n')
  }, 1)
  await listening.close(0)
  clearInterval(timer)
  expect(await held).toBe('cut')
})

it.each([
  [
    'headers that are too long',
    `GET / HTTP/1.1\r\nhost: a\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`,
    431,
    'headers_too_large',
  ],
  ['what is no HTTP', '\u0016\u0003\u0001 tls\r\n\r\n', 400, 'invalid_http'],
])('answers %s with an error that says what to do', async (_, sent, status, code) => {
  const listening = await listen(new Hono<AppEnvironment>(), { host: '127.0.0.1', port: 0 })
  const socket = connect(listening.port, '127.0.0.1')
  socket.write(sent)
  let text = ''
  for await (const chunk of socket) text += chunk
  const [head = '', body = ''] = text.split('\r\n\r\n')
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} .*\\r\\ncontent-type: application/json\\r\\n`))
  expect(JSON.parse(body)).toMatchObject({ error: { code, hint: expect.stringContaining('send') } })
  await listening.close(0)
})
