/**
 * Crowds of connections: bodies that drip without a key, streams of events of read keys. Another client is answered meanwhile, and nothing is held when they have gone. Linux, where
 * 127.0.0.2 is another client of the same machine. Stand-in children.
 */
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const EVENTS = '/v1/preview/events'
const MOST = 64
const STREAMS = 5

let service: TestService
let crowd: Socket[] = []
beforeAll(async () => {
  service = await createTestService({ maxConnections: MOST, maxEventStreams: STREAMS })
})
afterEach(() => {
  for (const socket of crowd) socket.destroy()
  crowd = []
})
afterAll(() => service.dispose())

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Asks as another client, on a connection of its own. */
function ask(path: string, { body, key = service.apiKey }: { readonly body?: object; readonly key?: string } = {}) {
  return new Promise<Answer>((resolve, reject) => {
    const { port } = new URL(service.url)
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const where = { host: '127.0.0.1', port, localAddress: '127.0.0.2', agent: new Agent() }
    const sent = request({ ...where, path, headers, method: body === undefined ? 'GET' : 'POST' }, (answer) => {
      let text = ''
      answer.on('data', (part) => {
        text += part
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }))
      answer.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** A connection of the crowd. @returns what came back so far */
function join(head: string): { readonly socket: Socket; text(): string; isClosed(): boolean } {
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
  crowd.push(socket)
  let text = ''
  let isClosed = false
  socket.on('data', (part) => {
    text += part.toString()
  })
  socket.on('error', () => undefined)
  socket.on('close', () => {
    isClosed = true
  })
  socket.write(head)
  return { socket, text: () => text, isClosed: () => isClosed }
}

const openDrip = (more = 'content-length: 1000') =>
  join(
    `POST /v1/preview/sessions/exchange HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n${more}\r\n\r\n`,
  )
const openStream = (key: string) =>
  join(`GET ${EVENTS} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer ${key}\r\n\r\n`)
async function readKey(): Promise<string> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', {
    json: { project: 'tests', scope: 'read' },
  })
  return body.key
}

describe.skipIf(process.platform !== 'linux')('another client is answered', () => {
  it('beside three times as many bodies without a key as there may be connections', async () => {
    for (let i = 0; i < 3 * MOST; i += 1) openDrip()
    const drip = setInterval(() => {
      for (const socket of crowd) if (!socket.destroyed) socket.write('{')
    }, 20)
    try {
      await until(() => crowd.filter(({ destroyed }) => destroyed).length >= 2 * MOST, 'a crowd that fills the server')
      for (let i = 0; i < 10; i += 1) {
        const answers = await Promise.all([
          ask('/v1/health'),
          ask(CHAT, { body: { messages: [{ role: 'user', content: 'hi' }] } }),
        ])
        expect(answers.map(({ status }) => status)).toEqual([200, 200])
      }
      expect(crowd.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(MOST / 2)
    } finally {
      clearInterval(drip)
    }
  })

  it('beside bodies with a key that never end: they give way to it', async () => {
    const key = await readKey()
    for (let i = 0; i < 2 * MOST; i += 1) {
      join(
        `POST ${CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer ${key}\r\ncontent-length: 1000\r\n\r\n{`,
      )
    }
    for (let i = 0; i < 10; i += 1) expect((await ask('/v1/health')).status).toBe(200)
  })
})

describe('bodies of routes that ask for no key', () => {
  it.each(['content-length: 1000', 'transfer-encoding: chunked'])(
    'must be there within a second (%s)',
    async (more) => {
      const { text, socket } = openDrip(more)
      socket.write(more.startsWith('content') ? '{' : '1\r\n{\r\n')
      await until(() => text().includes('\r\n\r\n') && text().includes('request_id'), 'a refusal')
      expect(text()).toMatch(/^HTTP\/1.1 408 /)
      expect(text()).toContain('without a key must be there within 1000 ms')
    },
  )
})

describe('streams of events', () => {
  it('of an entity are so many, whichever of its keys follow them; another entity has its own', async () => {
    const [first, second] = [await readKey(), await readKey()]
    const streams = Array.from({ length: STREAMS }, (_, i) => openStream(i % 2 === 0 ? first : second))
    await until(() => streams.every(({ text }) => text().includes('event: ready')), 'every stream')
    const refused = openStream(second)
    await until(() => refused.text().includes('request_id'), 'a refusal')
    expect(refused.text()).toMatch(/^HTTP\/1.1 429 .*\r\nretry-after: 5\r\n/is)
    expect(refused.text()).toContain('too_many_event_streams')
    const { key: foreign } = await service.createKey({ entity: 'others', scope: 'read' })
    const other = openStream(foreign)
    await until(() => other.text().includes('event: ready'), 'a stream of another entity')
    streams[0]?.socket.destroy()
    // what one held is given back when it has gone
    await until(async () => {
      const next = openStream(first)
      await until(() => /request_id|event: ready/.test(next.text()), 'an answer')
      return next.text().includes('event: ready')
    }, 'room for one more')
  })
})
