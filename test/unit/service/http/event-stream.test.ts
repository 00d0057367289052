/**
 * Event streams written to a connection: what arrives, at whose pace, and what happens when one side ends early. Real sockets.
 */
import { createServer, get, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Hono } from 'hono'
import { afterEach, describe, expect, it } from 'vitest'
import type { AppEnvironment } from '#service/http/environment.js'
import { sendEvents, writeEvents } from '#service/http/event-stream.js'
import { listen } from '#service/http/listen.js'
import type { EventStreamOptions, ServerSentEvent } from '#service/http/sse.js'
import { until } from '../../../support/until.js'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** What a client gets of these events. */
async function answerOf(
  events: AsyncIterable<ServerSentEvent>,
  options: EventStreamOptions = {},
): Promise<IncomingMessage> {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    void writeEvents(response, events, options)
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return new Promise((resolve, reject) => get({ host: '127.0.0.1', port }, resolve).on('error', reject))
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk as string
  return text
}

describe('written event streams', () => {
  it('send every event and end', async () => {
    async function* events() {
      yield { data: 'one' }
      yield { id: '2', event: 'x', data: 'zwei ünd drei' }
    }
    expect(await textOf(await answerOf(events()))).toBe('data: one\n\nid: 2\nevent: x\ndata: zwei ünd drei\n\n')
  })

  it('send the head and pings while no event comes', async () => {
    const stop = new AbortController()
    async function* events() {
      await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
      yield { data: 'late' }
    }
    // resolves with the head
    const answer = await answerOf(events(), { pingMs: 5 })
    let text = ''
    answer.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    await until(() => text.includes(': ping\n\n'), 'a ping')
    stop.abort()
    await until(() => answer.complete, 'the end of the answer')
    expect(text.endsWith('data: late\n\n')).toBe(true)
  })

  it('make no more events than a reader that stands still has room for', async () => {
    let made = 0
    const data = 'x'.repeat(100_000)
    async function* events() {
      for (;;) {
        made += 1
        yield { data }
      }
    }
    const answer = await answerOf(events())
    answer.pause()
    let before = -1
    // the sockets' buffers fill up, then nothing is made any more
    await until(() => {
      const isStill = made === before
      before = made
      return isStill && made > 1
    }, 'the source to stand still')
    expect(made).toBeLessThan(1000)
    answer.destroy()
  })

  it('stop their source when the reader leaves while it waits', async () => {
    const stop = new AbortController()
    let isReturned = false
    async function* events() {
      try {
        yield { data: '1' }
        await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
        yield { data: 'nobody reads this' }
      } finally {
        isReturned = true
      }
    }
    const answer = await answerOf(events(), { onCancel: () => stop.abort() })
    answer.destroy()
    await until(() => isReturned, 'the source to be stopped')
    expect(stop.signal.aborted).toBe(true)
  })

  it('are cut when their source fails', async () => {
    async function* events() {
      yield { data: '1' }
      throw new Error('broken')
    }
    // before or after what was sent already
    await expect(answerOf(events()).then(textOf)).rejects.toThrow(/hang up|aborted/)
  })

  it('carry the headers that middleware has set, and leave the connection to the next request', async () => {
    const app = new Hono<AppEnvironment>()
    app.use('*', async (c, next) => {
      c.header('x-request-id', 'abc')
      await next()
    })
    let begun = 0
    let cancelled = 0
    app.get('/', (c) => {
      async function* events() {
        begun += 1
        yield { data: '1' }
      }
      return sendEvents(c, events(), { onCancel: () => (cancelled += 1) })
    })
    const listening = await listen(app, { host: '127.0.0.1', port: 0 })
    try {
      for (let turn = 0; turn < 3; turn++) {
        const response = await fetch(listening.url)
        expect(response.headers.get('x-request-id')).toBe('abc')
        expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
        expect(await response.text()).toBe('data: 1\n\n')
      }
      expect([begun, cancelled]).toEqual([3, 0])
      const head = await fetch(listening.url, { method: 'HEAD' })
      expect([head.headers.get('x-request-id'), begun, cancelled]).toEqual(['abc', 3, 1])
      const portless = await app.request('/')
      expect(await portless.text()).toBe('data: 1\n\n')
    } finally {
      await listening.close(1000)
    }
  })
})
