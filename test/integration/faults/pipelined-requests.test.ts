/**
 * One connection that sends eighty endless streams ahead and leaves: another key's chats go on beside it and after it, and nothing it
 * asked for stays. And what is said of a request that waits for leave to send its body. Stand-in children.
 */
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const STREAMS = 80

let service: TestService
let sockets: Socket[] = []
beforeAll(async () => {
  service = await createTestService({ maxPendingRequests: 8, maxConcurrentRequests: 4 })
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  sockets = []
  await service.dispose()
})

async function keyOf(name: string): Promise<string> {
  const { body } = await service.json<{ key: string }>('/v1/preview/keys', { json: { name, scope: 'read' } })
  return body.key
}

function open(bytes: string): { readonly socket: Socket; text(): string } {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  sockets.push(socket)
  let text = ''
  socket.on('data', (data) => {
    text += data.toString()
  })
  socket.on('error', () => undefined)
  socket.write(bytes)
  return { socket, text: () => text }
}

function post(key: string, json: object, more = ''): string {
  const body = JSON.stringify(json)
  return `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${more}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })

async function chat(key: string): Promise<number> {
  const response = await service.fetch(CHAT, { json: say('hi'), headers: { authorization: `Bearer ${key}` } })
  await response.text()
  return response.status
}

it.each([true, false])('streams sent ahead (%s: streamed) take one place, and give it back', async (stream) => {
  const [own, other] = [await keyOf(`own ${stream}`), await keyOf(`other ${stream}`)]
  const { socket } = open(post(own, say('FOREVER', { stream })).repeat(STREAMS))
  await service.untilEngineHas({ running: 1 })
  expect(await chat(other)).toBe(200)
  await service.untilEngineHas({ running: 1, waiting: 0 })
  socket.destroy()
  expect(await chat(other)).toBe(200)
  await service.untilEngineHas({ running: 0, waiting: 0 })
  // the limit of its own key is free as well
  expect(await Promise.all(Array.from({ length: 4 }, () => chat(own)))).toEqual([200, 200, 200, 200])
})

it('a body is asked for once the key is known, and not where it is refused', async () => {
  const head = (key: string, length: number) =>
    `POST ${CHAT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`
  const body = JSON.stringify(say('hi'))
  const foreign = open(head('wrong', body.length))
  await until(() => foreign.text().includes('Unauthorized'), 'a refusal')
  const large = open(head(service.apiKey, 10 ** 12))
  await until(() => large.text().includes('request_too_large') || large.text().includes('larger than'), 'a refusal')
  expect(foreign.text() + large.text()).not.toContain('100 Continue')
  const { socket, text } = open(head(service.apiKey, body.length))
  await until(() => text().includes('100 Continue'), 'leave to send the body')
  socket.write(body)
  await until(() => text().includes('HTTP/1.1 200'), 'the answer')
})
