/**
 * A tenant's engine node is a stranger: it is called only where the operator says so, is no probe of the network, is read in a process of
 * its own, and cannot say more than was asked.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { JsonObject, JsonValue } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import { countOf, SEED } from '../../integration/api/fuzz/fuzzed-service.js'
import { createMutator, type Mutator } from '../../integration/api/fuzz/mutated-requests.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { unassignedPort } from '../../support/service/unassigned-port.js'

const BASE = 'trainyard/tiny-random'
const ID = 'node-of-mallory'
let service: TestService
/** Outlives a test. */
let shared: TestService | null = null
const servers: Server[] = []

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
  if (shared === null) await service.dispose()
})

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** @returns its address, and how many connections it had */
async function listen(answer: Answer): Promise<{ readonly url: string; readonly connections: () => number }> {
  let count = 0
  const server = createServer((request, response) => {
    request.resume().once('end', () => answer(request, response))
  })
  server.on('connection', () => {
    count += 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  servers.push(server)
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => count }
}

/** A node that knows its token, and generates as told. */
const nodeOf =
  (generate: Answer): Answer =>
  (request, response) => {
    if (request.url === '/v1/node') response.end(JSON.stringify({ id: ID }))
    else generate(request, response)
  }

async function keyOf(entity: string): Promise<string> {
  return (await service.createKey({ entity })).key
}

async function register(key: string, url: string): Promise<{ status: number; message: string }> {
  const headers = { authorization: `Bearer ${key}` }
  const name = encodeURIComponent(BASE)
  const files = await service.json<{ digest: string }>(`/internal/engine/base-models/${name}`, { headers })
  expect(files.status).toBe(200)
  const { version } = (await service.json<{ version: string }>('/v1/health')).body
  const json = {
    ...{ id: ID, name: 'theirs', url, token: 't'.repeat(43), engine: 'onnx', device: 'cpu' },
    versions: { trainyard: version },
    base_model: { name: BASE, digest: files.body.digest },
    ...{ context_length: 512, slots: 4, running: 0, waiting: 0, adapters: [] },
  }
  const { status, body } = await service.json<{ error?: { message: string } }>('/internal/engine/nodes', {
    json,
    headers,
  })
  return { status, message: body.error?.message ?? '' }
}

function complete(key: string): Promise<{ status: number; body: { error?: { message: string } } }> {
  const json = { model: BASE, prompt: 'Once', max_tokens: 4 }
  return service.json('/v1/completions', { json, headers: { authorization: `Bearer ${key}` } })
}

describe('where it may be', () => {
  it('is the operator’s to say: nobody is connected to elsewhere, and no two failures differ', async () => {
    const named = await listen((_, response) => response.end('{}'))
    const inner = await listen((_, response) => response.writeHead(500).end('secrets of the inner network'))
    const { port } = new URL(named.url)
    service = await createTestService({
      scripted: false,
      engines: 'remote',
      engineNodeHosts: [`127.0.0.1:${port}`, '10.9.0.0/16'],
    })
    const key = await keyOf('mallory')
    const closed = `http://127.0.0.1:${await unassignedPort()}`
    const innerPort = new URL(inner.url).port
    const told: string[] = []
    for (const url of [
      inner.url,
      closed,
      `http://localhost:${innerPort}`,
      `http://[::ffff:127.0.0.1]:${innerPort}`,
      `http://2130706433:${innerPort}`,
      'http://169.254.169.254',
      'http://no-such-name.invalid',
    ]) {
      const { status, message } = await register(key, url)
      expect([url, status]).toEqual([url, 409])
      told.push(message.replace(url, 'URL'))
    }
    expect(inner.connections()).toBe(0)
    // the one that may be asked, and is no node
    const { message } = await register(key, named.url)
    told.push(message.replace(named.url, 'URL'))
    expect(named.connections()).toBe(1)
    expect([...new Set(told)]).toEqual(['the server does not reach the engine node at URL'])
  })

  it('is not where it is redirected to', async () => {
    const inner = await listen((_, response) => response.end(JSON.stringify({ id: ID })))
    const node = await listen((_, response) => response.writeHead(302, { location: `${inner.url}/v1/node` }).end())
    service = await createTestService({ scripted: false, engines: 'remote', engineNodeHosts: ['127.0.0.1'] })
    expect(await register(await keyOf('mallory'), node.url)).toMatchObject({ status: 409 })
    expect(inner.connections()).toBe(0)
  })

  it('is anywhere for the operator’s own, who is told why it is not reached', async () => {
    service = await createTestService({ scripted: false, engines: 'remote' })
    const url = `http://127.0.0.1:${await unassignedPort()}`
    expect((await register(service.apiKey, url)).message).toContain('ECONNREFUSED')
    const node = await listen(nodeOf((_, response) => response.end()))
    expect(await register(service.apiKey, node.url)).toMatchObject({ status: 200 })
  })

  it('is a host, an address or a network', async () => {
    const start = createTestService({ engines: 'remote', engineNodeHosts: ['10.0.0.0/99'] })
    await expect(start).rejects.toMatchObject({ code: 'invalid_engine_node_host' })
    service = await createTestService({ engines: 'remote', engineNodeHosts: ['::1', 'gpu1.internal:8700', 'fd00::/8'] })
  })
})

describe('what it answers', () => {
  beforeAll(async () => {
    shared = await createTestService({ scripted: false, threads: 1, engines: 'auto', engineNodeHosts: ['127.0.0.1'] })
    service = shared
  })
  afterAll(async () => {
    await shared?.dispose()
  })

  const flood = (event: object, times: number): Answer => {
    const text = `data: ${JSON.stringify(event)}\n\n`
    return (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      let left = times
      const write = (): void => {
        while (left-- > 0 && !response.destroyed && response.write(text));
      }
      response.on('drain', write)
      write()
    }
  }
  const token = (ids: readonly number[]) => ({ choices: [{ index: 0, token_ids: ids, finish_reason: null }] })

  it.each([
    ['300,000 ids at once', flood(token(Array(300_000).fill(65)), 1)],
    ['ids without an end', flood(token([65]), Number.POSITIVE_INFINITY)],
    ['events without an end', flood({ choices: [] }, Number.POSITIVE_INFINITY)],
    ['an event without an end', flood({ choices: [], x: 'x'.repeat(1e6) }, Number.POSITIVE_INFINITY)],
  ])('ends its request, in a process of its own, and others are answered: %s', async (_, answer) => {
    expect((await complete(service.apiKey)).status).toBe(200)
    const [others = 0] = service.enginePids()
    const mallory = await keyOf('mallory')
    const node = await listen(nodeOf(answer))
    expect(await register(mallory, node.url)).toMatchObject({ status: 200 })
    const [theirs, ours] = await Promise.all([complete(mallory), complete(service.apiKey)])
    expect([theirs.status, theirs.body.error?.message]).toEqual([
      503,
      'engine node "theirs" answered with what is no answer',
    ])
    expect(ours.status).toBe(200)
    expect(service.enginePids()).toHaveLength(2)
    expect(service.enginePids()).toContain(others)
  })

  it('costs its own host at most: that one’s end is nobody else’s', async () => {
    const [others] = service.enginePids()
    const pids = service.enginePids().filter((pid) => pid !== others)
    expect(pids).toHaveLength(1)
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    expect((await complete(service.apiKey)).status).toBe(200)
    expect(service.enginePids()).toContain(others)
  })
})

const draw = { logprob: -0.1, kept_ids: [65, 66], unmodelled: ['dry'] }
const position = { token_id: 65, logprob: -0.5, rank: 1, top_logprobs: [{ token_id: 66, logprob: -1, rank: 2 }] }
const choice = (index: number, reason: string | null) => ({
  ...{ index, token_ids: [65, 66], finish_reason: reason, stop_reason: null },
  logprobs: { content: [{ ...position, drawn: draw }, position] },
})
/** What nodes say, event by event. */
const EVENTS: readonly JsonObject[] = [
  { choices: [], cached_tokens: 1, prompt: [{ ...position, position: 1, rank: 1 }] },
  { choices: [choice(0, null), choice(1, null)] },
  { choices: [choice(0, 'length'), choice(1, 'stop')] },
]
const WHOLE: JsonObject = {
  choices: [choice(0, 'stop'), choice(1, 'abort')],
  prompt_logprobs: [null, { 65: { logprob: -1, rank: 1 } }],
}
const CATEGORIES = ['invalid_request', 'permission', 'not_found', 'unavailable', 'internal', 'cancelled', 'nothing']

/** An answer that nearly is one, as a stream, in one piece, or as an error. */
function answerOnceMutated({ pick, chance, mutated, bytes }: Mutator): Answer {
  const wrong = (value: JsonValue): JsonValue => (chance(0.4) ? value : mutated(chance(0.2) ? mutated(value) : value))
  const error = (): JsonObject => {
    const trainyard = { category: pick(CATEGORIES), code: 'a_code', message: 'a message', hint: null, details: {} }
    const plain = { message: 'a message', code: pick([400, 404, 429, 500, 'x', -1]), param: 'prompt', type: 'x' }
    return { error: chance(0.5) ? { ...plain, trainyard: wrong(trainyard) } : wrong(plain) }
  }
  const stream = (): string => {
    const events = EVENTS.filter(() => chance(0.9)).map(wrong)
    if (chance(0.2)) events.splice(1, 0, error())
    const lines = events.map(
      (event) => `${chance(0.97) ? 'data: ' : pick(['', 'event: x\n', ':'])}${JSON.stringify(event)}`,
    )
    return [...lines, ...(chance(0.8) ? ['data: [DONE]'] : []), ''].join(chance(0.95) ? '\n\n' : '\n')
  }
  const [isStream, isWhole] = [chance(0.7), chance(0.5)]
  const status = isStream || isWhole ? 200 : pick([204, 400, 401, 404, 422, 429, 500, 503, 599])
  const text = isStream ? stream() : JSON.stringify(wrong(isWhole ? WHOLE : error()))
  const body = chance(0.8) ? Buffer.from(text) : bytes.damaged(Buffer.from(text))
  const isCut = chance(0.1)
  const type = isStream === chance(0.98) ? 'text/event-stream' : 'application/json'
  return (_, response) => {
    response.writeHead(status, { 'content-type': type, ...(isCut ? { 'content-length': body.length + 9 } : {}) })
    response.write(body, () => (isCut ? response.destroy() : response.end()))
  }
}

describe('an error of the operator’s node', () => {
  it.each(['internal', 'authentication', 'permission', 'not_found', 'conflict', 'cancelled'])(
    'that it calls %s is one of the engine: 503 with the name of the node, which is logged',
    async (category) => {
      const trainyard = { category, code: 'a_code', message: 'a step went wrong', hint: null, details: {} }
      const body = JSON.stringify({ error: { message: 'a step went wrong', code: 500, type: 'x', trainyard } })
      const node = await listen(nodeOf((_, response) => response.writeHead(500).end(body)))
      const logged: string[] = []
      service = await createTestService({
        ...{ scripted: false, engines: 'remote', engineNodeHosts: ['127.0.0.1'] },
        logger: createLogger({ destination: { write: (line) => void logged.push(line) } }),
      })
      expect((await register(service.apiKey, node.url)).status).toBe(200)
      const { status, body: answer } = await complete(service.apiKey)
      expect([status, answer.error?.message]).toEqual([
        503,
        expect.stringContaining('engine node "theirs" failed: a step went wrong'),
      ])
      expect(logged.filter((line) => line.includes('engine_failed')).join()).toContain(
        'engine node \\"theirs\\" failed',
      )
    },
  )
})

const ANSWERS = countOf(80, 0.02)

describe.each(['a stranger’s', 'the operator’s'])('whatever %s node answers', (whose) => {
  it(`is an answer or an error of the node, ${ANSWERS} times`, { timeout: 120_000 + ANSWERS * 200 }, async () => {
    const mutator = createMutator(createRng(`${SEED} ${whose}`))
    const { chance, pick } = mutator
    service = await createTestService({ scripted: false, engines: 'remote', engineNodeHosts: ['127.0.0.1'] })
    const key = whose === 'the operator’s' ? service.apiKey : await keyOf('mallory')
    let answer: Answer = () => undefined
    const node = await listen(nodeOf((request, response) => answer(request, response)))
    const seen = new Map<number, number>()
    const pids: number[] = []
    for (let i = 0; i < ANSWERS; i += 1) {
      expect((await register(key, node.url)).status).toBe(200)
      let said = ''
      const made = answerOnceMutated(mutator)
      answer = (request, response) => {
        const write = response.write.bind(response)
        response.write = ((part: Buffer, done: () => void) => {
          said = `${response.statusCode} ${part.toString('latin1')}`
          return write(part, done)
        }) as typeof response.write
        made(request, response)
      }
      const rules = pick([{}, { logprobs: 2 }, { echo: true, logprobs: 1 }, { stream: true }])
      const json = { model: BASE, prompt: 'Once', max_tokens: 4, n: chance(0.8) ? 2 : 1, ...rules }
      const response = await service.fetch('/v1/completions', { json, headers: { authorization: `Bearer ${key}` } })
      const text = await response.text()
      const what = `seed ${SEED}, answer ${i}: ${JSON.stringify(json)}\n${said}\n${response.status} ${text.slice(0, 500)}`
      const isNodes = response.status === 503 && /engine node|a message/.test(text)
      expect(response.status < 500 || response.status === 501 || isNodes, what).toBe(true)
      // the key is good, and what was asked for is there
      expect([401, 403, 404, 409, 499], what).not.toContain(response.status)
      for (const secret of ['    at ', 'node_modules', service.dataDir]) expect(text.includes(secret), what).toBe(false)
      if (i === 0) pids.push(...service.enginePids())
      seen.set(response.status, (seen.get(response.status) ?? 0) + 1)
    }
    expect(seen.get(200) ?? 0, JSON.stringify([...seen])).toBeGreaterThan(ANSWERS / 20)
    expect(seen.get(503) ?? 0, JSON.stringify([...seen])).toBeGreaterThan(ANSWERS / 20)
    expect(service.enginePids()).toEqual(pids)
    expect((await service.fetch('/v1/health')).status).toBe(200)
  })
})
