/** A node belongs to one tenant, the engine host to all: whatever a node answers ends its request and nothing else. */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AppError } from '#base/errors/errors.js'
import type { GenerationRequest } from '#inference/engine/generation.js'
import type { EngineNode } from '#inference/remote/engine-node.js'
import { createRoutedEngine, type RoutedEngine } from '#inference/remote/routed-engine.js'
import { GREEDY } from '../../../support/generation-rules.js'

const OWNER = { entity: 'local', project: null }
const PLACE = { address: null, isOperators: true }
let server: Server
let engine: RoutedEngine
let answer: (response: ServerResponse) => void

beforeEach(async () => {
  server = createServer((request, response) => {
    request.resume().once('end', () => answer(response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  engine = open()
  engine.setNodes([node('a')])
})
afterEach(async () => {
  await engine.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

function open(openLocal: (() => Promise<RoutedEngine>) | null = null): RoutedEngine {
  return createRoutedEngine({ baseModel: 'm', contextLength: 64, vocabularySize: 10, eosTokenIds: [2], openLocal })
}

function node(id: string, more: Partial<EngineNode> = {}): EngineNode {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const facts = { contextLength: 64, slots: 4, waiting: 0, isLeaving: false, reports: 1 }
  return { id, name: id, url, token: 't', engine: 'onnx', owner: OWNER, ...PLACE, ...facts, ...more }
}

/** What the listener hears, up to the end. */
function ask(at = engine, rules: Partial<GenerationRequest['rules']> = {}): Promise<string[]> {
  const heard: string[] = []
  const request = { id: 'r', promptTokenIds: [1], adapter: null, cacheSalt: null, owner: OWNER }
  return new Promise((resolve) => {
    at.submit(
      { ...request, rules: { ...GREEDY, ...rules } },
      {
        onStarted: () => undefined,
        onToken: ({ choice, tokenId }) => heard.push(`${choice}: ${tokenId}`) > 0,
        onAborted: () => undefined,
        onFinished: () => resolve([...heard, 'finished']),
        onFailed: ({ message }) => resolve([...heard, message]),
      },
    )
  })
}

/** What the listener is told of a request that fails. */
function failureOf(): Promise<AppError> {
  const request = { id: 'f', promptTokenIds: [1], adapter: null, cacheSalt: null, owner: OWNER, rules: GREEDY }
  const ignored = (): void => undefined
  return new Promise((resolve, reject) => {
    const onFinished = (): void => reject(new Error('it has finished'))
    const heard = { onStarted: ignored, onToken: () => true, onAborted: ignored, onFinished, onFailed: resolve }
    engine.submit(request, heard)
  })
}

function streamed(text: string): (response: ServerResponse) => void {
  return (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).write(text)
}

const event = (chunk: object): string => `data: ${JSON.stringify(chunk)}\n\n`
const token = (id: number, more: object = {}): object => ({
  index: 0,
  token_ids: [id],
  logprobs: { content: [{ token_id: id, logprob: -1, top_logprobs: [] }] },
  finish_reason: null,
  ...more,
})
const drawn = (keptIds: readonly number[], logprob = -1): object => {
  const position = { token_id: 1, logprob: -1, top_logprobs: [], drawn: { logprob, kept_ids: keptIds } }
  return token(1, { logprobs: { content: [position] } })
}
const NO_ANSWER = 'engine node "a" answered with what is no answer'

describe('an engine node that answers anything', () => {
  it.each([
    ['no JSON', 'data: x\n\n'],
    ['a chunk without choices', event({})],
    ['null', 'data: null\n\n'],
    ['choices that are none', event({ choices: [null] })],
    ['a token outside the vocabulary', event({ choices: [token(10)] })],
    ['a negative token', event({ choices: [token(-1)] })],
    [
      'a likely token outside the vocabulary',
      event({
        choices: [
          token(1, {
            logprobs: { content: [{ token_id: 1, logprob: -1, top_logprobs: [{ token_id: 99, logprob: -1 }] }] },
          }),
        ],
      }),
    ],
    ['a position behind the prompt', event({ choices: [], prompt: [{ position: 9, ...position(1) }] })],
  ])('ends its request alone: %s', async (_, text) => {
    answer = streamed(text)
    expect(await ask()).toEqual([NO_ANSWER])
  })

  it.each([
    ['in one event', event({ choices: [token(1, { token_ids: Array(300_000).fill(1) })] })],
    ['one by one', event({ choices: [token(1)] }).repeat(9)],
    ['for a choice that nobody asked for', event({ choices: [token(1, { index: 1 })] })],
    [
      'as likely ones',
      event({
        choices: [token(1, { logprobs: { content: [{ ...position(1), top_logprobs: Array(9).fill(position(1)) }] } })],
      }),
    ],
    ['as positions of no token', event({ choices: [token(1, { logprobs: { content: [position(1), position(1)] } })] })],
    ['as events of nothing', event({ choices: [] }).repeat(20_000)],
    ['as lines that are no events', ': nothing\n\n'.repeat(20_000)],
  ])('ends its request when it answers more than was asked for: %s', async (_, text) => {
    answer = streamed(text)
    const heard = await ask(engine, { maxTokens: 8 })
    expect(heard.at(-1)).toBe(NO_ANSWER)
    expect(heard.length).toBeLessThanOrEqual(9)
  })

  it('is told apart by nobody when it is a stranger’s: what it answers is not quoted, nor what its address says', async () => {
    const words = 'of the inner network'
    const closed = { url: 'http://127.0.0.1:1' }
    const stranger = { isOperators: false }
    const told = new Set<string>()
    engine.setNodes([node('a', stranger)])
    for (const status of [500, 502, 404, 429, 401]) {
      answer = (response) =>
        response.writeHead(status, { location: 'http://127.0.0.1:1' }).end(JSON.stringify({ message: words }))
      told.add((await ask()).join())
    }
    answer = streamed(event({ choices: [], error: { message: words } }))
    told.add((await ask()).join())
    expect([...told]).toEqual(['engine node "a" failed'])
    answer = (response) => response.writeHead(400).end(JSON.stringify({ message: words }))
    expect(await ask()).toEqual(['engine node "a" refused the request'])
    engine.setNodes([node('a', { ...stranger, ...closed })])
    expect(await ask()).toEqual(['engine node "a" was not reached'])
    engine.setNodes([node('a', { ...stranger, url: 'http://no-such-name.invalid:1' })])
    expect(await ask()).toEqual(['engine node "a" was not reached'])
  })

  it('is connected to at the address that was checked, whatever its name says', async () => {
    const { port } = server.address() as AddressInfo
    engine.setNodes([node('a', { url: `http://no-such-name.invalid:${port}`, address: '127.0.0.1' })])
    answer = streamed(event({ choices: [token(3, { finish_reason: 'length' })] }))
    expect(await ask()).toEqual(['0: 3', 'finished'])
  })

  it.each([
    ['a draw from tokens outside the vocabulary', event({ choices: [drawn([1, 10])] })],
    ['a draw of a token that is not in its set', event({ choices: [drawn([2, 3])] })],
    ['a draw from more tokens than a set may have', event({ choices: [drawn(Array(513).fill(1))] })],
    ['a draw more likely than certain', event({ choices: [drawn([1], 0.5)] })],
  ])('ends a request that is told of draws: %s', async (_, text) => {
    answer = streamed(text)
    expect(await ask(engine, { recordsDraws: true })).toEqual([NO_ANSWER])
  })

  it('hears the largest sets of an answer that is told of draws', async () => {
    const sizes = { contextLength: 256, vocabularySize: 2_000_000 }
    const large = createRoutedEngine({ baseModel: 'm', ...sizes, eosTokenIds: [2], openLocal: null })
    large.setNodes([node('a', { contextLength: 256 })])
    const keptIds = [1, ...Array.from({ length: 511 }, (_, i) => 1_000_000 + i)]
    answer = streamed(
      event({ choices: [drawn(keptIds)] }).repeat(199) + event({ choices: [token(1, { finish_reason: 'length' })] }),
    )
    const heard = await ask(large, { recordsDraws: true, maxTokens: 200 })
    await large.close()
    expect(heard).toHaveLength(201)
    expect(heard.at(-1)).toBe('finished')
  })

  it('ends it also with an answer in one piece', async () => {
    for (const body of ['x', '{}', 'null', '{"choices":[{"index":0}]}']) {
      answer = (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(body)
      expect(await ask(), body).toEqual([NO_ANSWER])
    }
  })

  it('is believed no error of ours that is none', async () => {
    const error = { message: 'no', code: 'c', trainyard: { category: 'x', code: 'c', message: 'no', cause: {} } }
    const failed = 'engine node "a" failed: no'
    answer = streamed(event({ error }))
    expect(await ask()).toEqual([failed])
    answer = (response) => response.writeHead(500).end(JSON.stringify({ error }))
    expect(await ask()).toEqual([failed])
    const own = { category: 'invalid_request', code: 'c', message: 'ours', cause: {} }
    answer = streamed(event({ choices: [], error: { ...error, trainyard: own } }))
    expect(await ask()).toEqual(['ours'])
  })

  it.each(['unavailable', 'internal', 'invalid_request'] as const)(
    'is believed no error of a device, for which the host of all would end (%s)',
    async (category) => {
      const own = { category, code: 'device_lost', message: 'webgpu was lost' }
      const error = { message: own.message, code: 'device_lost', trainyard: own }
      answer = streamed(event({ choices: [], error }))
      const streamedError = await failureOf()
      answer = (response) => response.writeHead(503).end(JSON.stringify({ error }))
      const statusError = await failureOf()
      for (const failed of [streamedError, statusError]) {
        expect(['engine_restarting', 'invalid_value']).toContain(failed.code)
        expect(failed.message).toContain('webgpu was lost')
      }
      expect(statusError).toMatchObject({ code: 'engine_restarting', category: 'unavailable' })
    },
  )

  it.each([
    ['a stream', 'text/event-stream', {}],
    ['one piece', 'application/json', { n: 128, maxTokens: 60, topLogprobs: 200 }],
  ])(
    'ends it when it sends without an end: %s',
    async (_, contentType, rules) => {
      let sentMib = 0
      answer = (response) => {
        response.writeHead(200, { 'content-type': contentType })
        const part = `data: ${'x'.repeat(1024 ** 2)}`
        const write = (): void => {
          do sentMib += 1
          while (!response.destroyed && response.write(part))
        }
        response.on('drain', write)
        write()
      }
      expect(await ask(engine, rules)).toEqual([NO_ANSWER])
      // 64 are read, and some stand in the buffers between
      expect(sentMib).toBeLessThan(128)
    },
    60_000,
  )

  it.each([
    [429, { message: 'full', code: 'queue_full' }],
    [503, { message: 'this engine node has no model loaded', code: 'model_loading' }],
    [404, { message: 'no such adapter', code: 404 }],
  ])('that is full, or loads, or lacks something (%i) is left for the next one', async (status, error) => {
    engine.setNodes([node('a'), node('b')])
    let asked = 0
    answer = (response) => {
      asked += 1
      if (asked === 1) response.writeHead(status).end(JSON.stringify({ error }))
      else streamed(event({ choices: [token(3, { finish_reason: 'length' })] }))(response)
    }
    expect(await ask()).toEqual(['0: 3', 'finished'])
    expect(asked).toBe(2)
  })

  it('is not heard any more behind what made its request begin anew elsewhere', async () => {
    engine.setNodes([node('a'), node('b')])
    let asked = 0
    answer = (response) => {
      asked += 1
      const cut = { index: 0, token_ids: [], logprobs: null, finish_reason: 'abort' }
      const good = [1, 0].map((index) => token(3, { index, finish_reason: 'length' }))
      streamed(event({ choices: asked === 1 ? [cut, token(9, { index: 1 })] : good }))(response)
    }
    expect(await ask(engine, { n: 2 })).toEqual(['1: 3', '0: 3', 'finished'])
  })
})

it('a routed engine is idle when the engine here is that its requests went to', async () => {
  let respond: () => void = () => undefined
  const isAsked = new Promise<void>((resolve) => {
    answer = (response) => {
      respond = () => streamed(event({ choices: [token(3, { finish_reason: 'length' })] }))(response)
      resolve()
    }
  })
  const outer = open(() => Promise.resolve(engine))
  const order: string[] = []
  const finished = ask(outer).then((heard) => order.push(...heard))
  const idle = outer.idle().then(() => order.push('idle'))
  await isAsked
  respond()
  await Promise.all([finished, idle])
  expect(order.at(-1)).toBe('idle')
  expect(order).toContain('finished')
})

function position(id: number): object {
  return { token_id: id, logprob: -1, rank: 1, top_logprobs: [] }
}
