/**
 * HEAD: what GET's body would hold is let go, an endless one too.
 */
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import type { AppEnvironment } from '#service/http/environment.js'
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
