/**
 * Shutdown of a server at work, through its sockets: what runs is drained, what comes is refused, and at the deadline every open
 * request gets its own clear end, whoever holds it up. The process ends by itself, and its database is one clean file.
 */
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { isOnPostgres } from '../../support/service/database-kind.js'
import { isAlive } from '../../support/service/is-alive.js'
import {
  childrenOf,
  type KillableServer,
  type KillableServerOptions,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { until } from '../../support/until.js'

const CHAT = '/v1/chat/completions'
const MODEL = { model: 'trainyard/tiny-random', ignore_eos: true }
const SAYING = { ...MODEL, messages: [{ role: 'user', content: 'Count.' }] }
/** Much more work than it takes to stop the engine. */
const MANY = { n: 16, max_tokens: 1900 }

let dataDir: string
let server: KillableServer
let sockets: Socket[] = []
let log: string[] = []
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'trainyard-shutdown-'))
  sockets = []
  log = []
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  await server.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true, maxRetries: 20 })
})

async function start(options: Partial<KillableServerOptions> = {}): Promise<void> {
  server = await startKillableServer({ dataDir, threads: 1, onLog: (line) => log.push(line), ...options })
}

interface Asked {
  /** What has come so far. */
  text(): string
  isOver(): boolean
  readonly ended: Promise<{ readonly status: number; readonly text: string; readonly retryAfter: string | null }>
}

function ask(path: string, json?: object, headers: Readonly<Record<string, string>> = {}): Asked {
  let text = ''
  let isOver = false
  const ended = (async () => {
    const response = await fetch(server.url + path, {
      method: json === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json', ...headers },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
    for await (const part of response.body ?? []) text += Buffer.from(part).toString()
    isOver = true
    return { status: response.status, text, retryAfter: response.headers.get('retry-after') }
  })()
  // looked at when the server has ended
  ended.catch(() => undefined)
  return { text: () => text, isOver: () => isOver, ended }
}

const begun = (asked: Asked, what: string) => until(() => asked.text().includes('data: {'), what)

/** Bytes of a request by hand; nothing is read. */
function send(text: string): Socket {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.pause()
  socket.write(text)
  sockets.push(socket)
  return socket
}

const head = (path: string, length: number) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.apiKey}\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${length}\r\n`

const STREAMS = {
  chat: () => ask(CHAT, { ...SAYING, ...MANY, stream: true }),
  completion: () => ask('/v1/completions', { ...MODEL, ...MANY, prompt: 'Count.', stream: true }),
  response: () => ask('/v1/responses', { ...MODEL, input: 'Count.', max_output_tokens: 1900, stream: true }),
}

/** Streams of each kind that have begun, their engine stopped. One that a busy machine let end before is begun again. */
async function stoppedStreams(engine: number): Promise<Record<keyof typeof STREAMS, Asked>> {
  for (;;) {
    const [chat, completion] = [STREAMS.chat(), STREAMS.completion()]
    for (const stream of [chat, completion]) await begun(stream, 'a stream')
    const response = STREAMS.response()
    await until(() => response.text().includes('output_text.delta'), 'a response')
    process.kill(engine, 'SIGSTOP')
    await engineCounts()
    if (![chat, completion, response].some((stream) => stream.isOver())) return { chat, completion, response }
    process.kill(engine, 'SIGCONT')
    for (const { ended } of [chat, completion, response]) await ended
  }
}

async function engineCounts(): Promise<Readonly<Record<string, number>>> {
  const text = await (await server.fetch('/metrics')).text()
  const of = (name: string) => Number(new RegExp(`^vllm:num_requests_${name}\\{.*\\} (\\d+)$`, 'm').exec(text)?.[1])
  return { running: of('running'), waiting: of('waiting') }
}

/** The process has ended by itself, with its children, and what it leaves is one whole file. */
async function expectCleanEnd(children: readonly number[]): Promise<void> {
  expect([server.child.exitCode, server.child.signalCode]).toEqual([0, null])
  await until(() => !children.some(isAlive), 'the end of the children')
  expect(await readdir(join(dataDir, 'blobs/incoming'))).toEqual([])
  if (isOnPostgres()) return
  const names = (await readdir(dataDir)).filter((name) => name.startsWith('trainyard.sqlite3'))
  expect(names).toEqual(['trainyard.sqlite3'])
  const sqlite = openSqlite(join(dataDir, names[0] ?? ''), { readonly: true })
  expect([sqlite.pragma('integrity_check', { simple: true }), sqlite.pragma('foreign_key_check')]).toEqual(['ok', []])
  sqlite.close()
}

describe('a server that is told to stop', { timeout: 280_000 }, () => {
  it('ends what runs, takes no more, and is gone before its deadline', async () => {
    await start({ drainMs: 600_000 })
    const engine = await server.enginePid()
    const streamed = ask(CHAT, { ...SAYING, n: 16, max_tokens: 300, stream: true })
    const plain = ask(CHAT, { ...SAYING, n: 16, max_tokens: 300 })
    await begun(streamed, 'the stream')
    // so that both are there when it stops
    process.kill(engine, 'SIGSTOP')
    const late = send(`${head(CHAT, 2)}X-Half: `)
    await once(late, 'connect')
    let answer = ''
    late.on('data', (chunk: Buffer) => {
      answer += chunk.toString()
    })
    const isThere = async () => Object.values(await engineCounts()).reduce((sum, count) => sum + count, 0) >= 2
    // or over already, on a machine that held this process up; asked first, so that the server has what was sent late
    await until(async () => (await isThere()) || streamed.isOver() || plain.isOver(), 'both in the engine')
    const children = childrenOf(server.pid)
    const gone = server.kill('SIGTERM')
    await until(() => log.some((line) => line.includes('service.stopping')), 'the begin of the stop')
    // a probe of life does not end a server that ends its work; whoever sends requests is told to go elsewhere
    expect((await fetch(`${server.url}/v1/health`)).status).toBe(200)
    for (const path of ['/v1/ready', '/v1/models']) {
      const refused = await server.fetch(path)
      expect([path, refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([path, 503, true])
      expect(refused.headers.get('connection')).toBe('close')
    }
    // a connection that was there before
    late.resume()
    late.write('1\r\n\r\n{}')
    await until(() => answer.includes('\r\n\r\n') || late.closed, 'an answer to what came late')
    expect(answer).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: \d+[\s\S]*the server is shutting down/i)
    process.kill(engine, 'SIGCONT')
    const { text } = await streamed.ended
    expect([text.match(/"finish_reason":"length"/g)?.length, text.trimEnd().endsWith('data: [DONE]')]).toEqual([
      16,
      true,
    ])
    expect(text).not.toContain('"error"')
    const whole = await plain.ended
    expect([whole.status, whole.text.match(/"finish_reason":"length"/g)?.length]).toEqual([200, 16])
    await gone
    await expectCleanEnd(children)
  })

  it('ends what is left at its deadline, each with its own last word, and loses no job', async () => {
    // a body that does not come would never be given up for its pace
    await start({ tuning: { bodies: { idleMs: 3_600_000, minBytesPerSecond: 0 } } })
    const modelId = await server.createModel()
    const engine = await server.enginePid()
    const steps = 40
    const { jobId } = await server.stoppedJob(modelId, steps)
    const events = ask(`/v1/preview/training-jobs/${jobId}/events`, undefined, { accept: 'text/event-stream' })
    await begun(events, 'events of the job')
    const streams = await stoppedStreams(engine)
    const plain = [
      ask(CHAT, { ...SAYING, ...MANY }),
      ask('/v1/completions', { ...MODEL, prompt: 'Count.', max_tokens: 5 }),
      ask('/v1/responses', { ...MODEL, input: 'Count.' }),
      ask('/tokenize', { ...MODEL, prompt: 'Count.' }),
    ]
    const body = JSON.stringify({ ...SAYING, ...MANY, stream: true, logprobs: true, top_logprobs: 20 })
    send(`${head(CHAT, Buffer.byteLength(body))}\r\n${body}`)
    send(`${head(CHAT, 1000)}\r\n{"messages":`)
    send(`${head('/v1/preview/training-jobs', 1_000_000)}\r\n{"model_id":"${modelId}","trajectory_groups":[`)
    await until(async () => ((await engineCounts())['waiting'] ?? 0) >= 3, 'requests that wait')

    const children = childrenOf(server.pid)
    await server.kill('SIGTERM')
    expect((await events.ended).text).not.toContain('training_ended')
    const ended = { chat: streams.chat, completion: streams.completion }
    for (const [name, { ended: end }] of Object.entries(ended)) {
      const { status, text } = await end
      const last = text.trimEnd().split('\n\n').slice(-2)
      expect([name, status, last], text.slice(-500)).toEqual([
        name,
        200,
        [
          expect.stringMatching(/^data: \{"error":\{"message":"the server is shutting down".*"code":503/),
          'data: [DONE]',
        ],
      ])
    }
    const response = await streams.response.ended
    expect(response.text.trimEnd().split('\n\n').at(-1)).toMatch(
      /^event: response\.failed\n.*the server is shutting down/,
    )
    for (const { ended: end } of plain) {
      const { status, text, retryAfter } = await end
      expect([status, Number(retryAfter) > 0, text]).toEqual([503, true, expect.stringContaining('is shutting down')])
    }
    await expectCleanEnd(children)

    await start({ apiKey: server.apiKey })
    const job = await server.untilEnd(jobId)
    expect(job).toMatchObject({ status: 'completed', num_gradient_steps: steps } satisfies Partial<TrainingJob>)
    expect((await server.eventsOf(jobId)).filter(({ type }) => type === 'gradient_step')).toHaveLength(steps)
    expect((await server.fetch(CHAT, { ...SAYING, max_tokens: 2 })).status).toBe(200)
  })
})
