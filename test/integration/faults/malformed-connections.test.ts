/**
 * A hundred connections as no client makes them, beside streaming chats: slow, torn, half-closed, lying about their length, followed
 * by garbage, or never read. Each gets the answer that belongs to it, all chats are whole, and the server holds nothing of them afterwards.
 */
import { readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type KillableServer, startKillableServer } from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const OF_EACH = 8
const CHATS = 8
const TOKENS = 200
/** Between two pieces of what is sent slowly. */
const PAUSE_MS = 20

let dataDir: string
let server: KillableServer
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-malformed-'))
  server = await startKillableServer({ dataDir, threads: 1 })
})
afterAll(async () => {
  await server.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

const chatBody = (more: object) => {
  const messages = [{ role: 'user', content: 'Count.' }]
  return JSON.stringify({ model: 'trainyard/tiny-random', messages, max_tokens: 2, ignore_eos: true, ...more })
}

/** The text of a request, its head as given or made for the body. */
function post(
  body: string,
  headers = [`Content-Length: ${Buffer.byteLength(body)}`],
  path = '/v1/chat/completions',
): string {
  const head = [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    `Authorization: Bearer ${server.apiKey}`,
    'Content-Type: application/json',
    ...headers,
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

interface Connection {
  readonly socket: Socket
  /** What has come so far. */
  text(): string
  isClosed(): boolean
}

function open(): Connection {
  const { hostname, port } = new URL(server.url)
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
  let text = ''
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  // left early by the server: what it said before counts
  socket.on('error', () => undefined)
  socket.on('end', () => socket.end())
  return { socket, text: () => text, isClosed: () => socket.closed }
}

async function sendSlowly(socket: Socket, text: string): Promise<void> {
  const size = Math.ceil(text.length / 20)
  for (let at = 0; at < text.length && !socket.closed; at += size) {
    socket.write(text.slice(at, at + size))
    await sleep(PAUSE_MS)
  }
}

const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status))

/** Sends all of it; the connection ends, and this is the last it says. What stood in front may have been answered before. */
const ended = (sent: () => string | Uint8Array, status: number) => async (): Promise<void> => {
  const { socket, text, isClosed } = open()
  socket.write(sent())
  await until(isClosed, `the end of a connection with status ${status}`)
  expect(statuses(text()).at(-1), text().slice(0, 500)).toBe(status)
}

/** Sends part of a request and leaves. */
const left = (sent: () => string) => async (): Promise<void> => {
  const { socket } = open()
  await new Promise((done) => socket.write(sent(), done))
  socket.destroy()
}

/** Sockets of streams that nobody reads: they stay open until the engine is done with all requests. */
const unread: Socket[] = []

const KINDS: Readonly<Record<string, () => Promise<void>>> = {
  'slow headers are answered': async () => {
    const { socket, text } = open()
    await sendSlowly(socket, post(chatBody({})))
    await until(() => text().includes('"usage"'), 'an answer to slow headers')
    expect(statuses(text())).toEqual([200])
    socket.destroy()
  },
  'headers that never end are ended': async () => {
    const { socket, text, isClosed } = open()
    socket.write('GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ')
    await until(isClosed, 'the end of a connection whose headers never end')
    expect(statuses(text())).toEqual([408])
  },
  'a slow body is answered': async () => {
    const { socket, text } = open()
    const [head = '', body = ''] = post(chatBody({})).split('\r\n\r\n')
    socket.write(`${head}\r\n\r\n`)
    await sendSlowly(socket, body)
    await until(() => text().includes('"usage"'), 'an answer to a slow body')
    expect(statuses(text())).toEqual([200])
    socket.destroy()
  },
  'who closes only its own side is answered or left': async () => {
    const { socket, text, isClosed } = open()
    socket.end(post(chatBody({})))
    await until(() => text().includes('"usage"') || isClosed(), 'the end of a half-closed connection')
    expect([[], [200]]).toContainEqual(statuses(text()))
    socket.destroy()
  },
  'a body that ends before its length is left': async () => {
    const { socket, text, isClosed } = open()
    socket.end(post(chatBody({}), ['Content-Length: 100000']))
    await until(isClosed, 'the end of a request whose body ends early')
    expect(statuses(text()).every((status) => status === 400)).toBe(true)
  },
  'who leaves in the middle of a body is forgotten': left(() => post(chatBody({}), ['Content-Length: 5000000'])),
  'who leaves a running answer is forgotten': left(() => post(chatBody({ max_tokens: 1000, stream: true }))),
  'a length below the body: its rest is no request': ended(() => post(chatBody({}), ['Content-Length: 10']), 400),
  'garbage behind a request': ended(
    () => 'GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n\0\x01\xff garbage\r\n\r\n',
    400,
  ),
  'a chunk of no size': ended(() => post('zz\r\nabc\r\n', ['Transfer-Encoding: chunked']), 400),
  'two lengths': ended(() => post('{}', ['Content-Length: 2', 'Content-Length: 3']), 400),
  'a length and chunks': ended(() => post('0\r\n\r\n', ['Content-Length: 5', 'Transfer-Encoding: chunked']), 400),
  'a length that is no number': ended(() => post('{}', ['Content-Length: two']), 400),
  'headers of a megabyte': ended(() => post('', [`X-Large: ${'x'.repeat(1e6)}`]), 431),
  'another protocol': ended(() => Buffer.from('16030100f1010000ed0303', 'hex'), 400),
  'streams that are not read': async () => {
    const { socket } = open()
    socket.pause()
    unread.push(socket)
    const body = chatBody({ stream: true, max_tokens: 200, logprobs: true, top_logprobs: 20 })
    await new Promise((done) => socket.write(post(body), done))
  },
}

async function counts(): Promise<readonly number[]> {
  const text = await (await server.fetch('/metrics')).text()
  return [...text.matchAll(/^vllm:num_requests_(?:running|waiting)\{.*\} (\d+)$/gm)].map(([, count]) => Number(count))
}
async function idle(): Promise<boolean> {
  const all = await counts()
  return all.length > 0 && all.every((count) => count === 0)
}

async function stream(): Promise<string> {
  const { socket, text, isClosed } = open()
  socket.write(post(chatBody({ stream: true, max_tokens: TOKENS, stream_options: { include_usage: true } })))
  await until(() => text().includes('data: [DONE]') || isClosed(), 'the end of a stream', 240_000)
  socket.destroy()
  return text()
}

/** Of the server's process. */
const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length

it('are answered as they deserve; chats beside them are whole, and nothing is kept', async () => {
  expect(await stream()).toContain(`"completion_tokens":${TOKENS}`)
  const before = descriptors()
  let isOver = false
  const chats = Array.from({ length: CHATS }, async () => {
    let count = 0
    while (!isOver || count === 0) {
      expect(await stream()).toContain(`"completion_tokens":${TOKENS}`)
      count += 1
    }
    return count
  })
  // in turns: all kinds stand beside each other
  const outcomes = await Promise.allSettled(
    Array.from({ length: OF_EACH }, () => Object.entries(KINDS))
      .flat()
      .map(async ([kind, run]) => {
        try {
          await run()
        } catch (cause) {
          throw new Error(kind, { cause })
        }
      }),
  )
  isOver = true
  const whole = await Promise.all(chats)
  const failed = outcomes.filter((one) => one.status === 'rejected').map((one) => one.reason as Error)
  console.log(`${outcomes.length} connections beside ${whole.reduce((sum, count) => sum + count, 0)} streams`)
  expect(failed.map(({ message, cause }) => `${message}: ${String(cause)}`)).toEqual([])
  expect(unread).toHaveLength(OF_EACH)
  await until(idle, 'an engine without requests, done with streams that nobody reads')
  for (const socket of unread) socket.destroy()
  await until(() => descriptors() <= before + 1, 'descriptors as before')
  expect(await stream()).toContain(`"completion_tokens":${TOKENS}`)
})
