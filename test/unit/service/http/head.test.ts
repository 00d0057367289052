/**
 * HEAD: what GET's body would hold is let go, an endless one too.
 */
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import type { AppEnvironment } from '#service/http/environment.js'
import { sendEvents } from '#service/http/event-stream.js'
import { dropBodyOfHead } from '#service/http/middleware/head.js'
import { toEventStream } from '#service/http/sse.js'

test('ends an event stream, and leaves the answer to GET alone', async () => {
  const app = new Hono<AppEnvironment>()
  let cancelled = 0
  async function* events() {
    yield { data: '1' }
    yield { data: '2' }
  }
  app.use('*', dropBodyOfHead())
  app.get('/events', (c) =>
    c.body(toEventStream(events(), { onCancel: () => (cancelled += 1) }), 200, { 'x-kept': 'a' }),
  )
  app.get('/nothing', (c) => c.body(null, 204))

  const head = await app.request('/events', { method: 'HEAD' })
  expect([head.status, head.headers.get('x-kept'), head.body, cancelled]).toEqual([200, 'a', null, 1])
  expect(await (await app.request('/events')).text()).toBe('data: 1\n\ndata: 2\n\n')
  expect(cancelled).toBe(1)
  expect((await app.request('/nothing', { method: 'HEAD' })).status).toBe(204)
})

test('starts no event stream on a connection', async () => {
  const app = new Hono<AppEnvironment>()
  const seen: string[] = []
  async function* events() {
    seen.push('asked for an event')
    yield { data: '1' }
  }
  app.get('/events', (c) => sendEvents(c, events(), { onCancel: () => seen.push('cancelled') }))
  const outgoing = { writeHead: () => seen.push('written to') }
  const head = await app.request('/events', { method: 'HEAD' }, { outgoing })
  expect([head.status, head.headers.get('content-type'), seen]).toEqual([
    200,
    'text/event-stream; charset=utf-8',
    ['cancelled'],
  ])
})
