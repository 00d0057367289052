/**
 * Chat: names, answer shapes, streams, and what happens when the client or the engine goes away. Stand-in engine.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chatChunkSchema, chatResponseSchema } from '#contract/wire/chat-completions.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
let model: string
beforeAll(async () => {
  service = await createTestService()
  model = await service.createModel('m')
  for (let step = 0; step < 2; step += 1) {
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: model, trajectory_groups: [sampleGroup([step, 2])] },
    })
    expect((await service.waitForJob(body.id)).status).toBe('completed')
  }
})
afterAll(() => service.dispose())

const CHAT = '/v1/chat/completions'
const say = (content: string, more: object = {}) => ({ messages: [{ role: 'user', content }], ...more })

interface Chunk {
  choices: {
    index: number
    delta: { role?: string; content?: string }
    finish_reason: string | null
    token_ids?: number[] | null
  }[]
  usage?: { completion_tokens: number; total_tokens: number }
  prompt_token_ids?: number[] | null
  error?: { message: string; code: number }
}

async function streamChunks(json: object): Promise<{ chunks: Chunk[]; text: string; response: Response }> {
  const response = await service.fetch(CHAT, { json: { stream: true, ...json } })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  const lines = text.split('\n\n').filter((line) => line !== '')
  expect(lines.at(-1)).toBe('data: [DONE]')
  return { chunks: lines.slice(0, -1).map((line) => JSON.parse(line.slice(6)) as Chunk), text, response }
}

it('top_logprobs alone is enough for a trainable model, whose log-probabilities are on unless it says otherwise', async () => {
  const ask = (more: object) => service.json<Chunk>(CHAT, { json: say('hi', { model: 'm', top_logprobs: 2, ...more }) })
  expect((await ask({ max_tokens: 1 })).status).toBe(200)
  expect((await ask({ logprobs: false })).body.error?.message).toContain('`logprobs` must be set to true')
})

it('a base model was created when the server began to serve it, not at the time of the call', async () => {
  const created = async () => {
    const { body } = await service.json<{ data: { id: string; created: number }[] }>('/v1/models')
    return body.data.find(({ id }) => id === 'trainyard/tiny-random')?.created ?? 0
  }
  const first = await created()
  const startOfCall = Math.floor(Date.now() / 1000)
  await expect.poll(() => Math.floor(Date.now() / 1000), { timeout: 10_000 }).toBeGreaterThan(startOfCall)
  expect(await created()).toBe(first)
})

it('a silent stream sends comments, unless it is told not to', async () => {
  // a machine that holds this process up, which is the server too, may do so until the engine goes on: not every time
  await until(async () => {
    const pinged = await service.fetch(CHAT, { json: say('BUSY', { stream: true, sse_ping_interval: 1 }) })
    const text = await pinged.text()
    expect(text.replaceAll(': ping\n\n', '')).toMatch(/^(data: .+\n\n)+$/)
    return text.includes('\n\n: ping\n\n')
  }, 'a comment while the engine is silent')
  const silent = await service.fetch(CHAT, { json: say('BUSY', { stream: true, sse_ping_interval: 0 }) })
  expect(await silent.text()).not.toContain(': ping')
})

describe('model names', () => {
  const stepOf = (response: Response) => /:step(\d+):/.exec(response.headers.get('x-trainyard-checkpoint') ?? '')?.[1]

  it.each([
    ['m', '2'],
    ['tests/m', '2'],
    ['local/tests/m', '2'],
    ['wandb-artifact:///local/tests/m', '2'],
    ['wandb-artifact://local/tests/m:step1', '1'],
    ['wandb-artifact:///local/tests/m:step1', '1'],
    ['wandb-artifact:///local/tests/m:v2', '2'],
    ['wandb-artifact:///local/tests/m:latest', '2'],
    ['hosted_vllm/wandb-artifact:///local/tests/m:step2', '2'],
    ['m:step0', '0'],
    ['trainyard/tiny-random', '0'],
    ['hosted_vllm/trainyard/tiny-random', '0'],
    ['', '0'],
  ])('"%s" answers with step %s', async (name, step) => {
    const response = await service.fetch(CHAT, { json: say('x', { model: name }) })
    expect(response.status).toBe(200)
    expect(stepOf(response)).toBe(step)
    await response.text()
  })

  it('may be the model id', async () => {
    const { body } = await service.json<{ choices: { message: { content: string } }[] }>(CHAT, {
      json: say('x', { model }),
    })
    expect(body.choices[0]?.message.content).toMatch(/^step-/)
  })

  it.each([
    'M',
    'other/m',
    'others/tests/m',
    'm:step9',
    'm:best',
    'm:step1:x',
    'a/b/c/d',
    'wandb-artifact:///',
    'wandb-artifact:///local/tests/',
    '../m',
    'm:step99999999999',
  ])('"%s" does not exist', async (name) => {
    const { status, body } = await service.json(CHAT, { json: say('x', { model: name }) })
    expect(status).toBe(404)
    expect(body).toMatchObject({ error: { message: `The model \`${name}\` does not exist.`, type: 'NotFoundError' } })
  })

  it('that several projects share is an error which lists them', async () => {
    await service.json('/v1/preview/models', {
      json: { project: 'p2', name: 'twice', base_model: 'trainyard/tiny-random' },
    })
    await service.createModel('twice')
    const { status, body } = await service.json(CHAT, { json: say('x', { model: 'twice' }) })
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('\\"p2/twice\\", \\"tests/twice\\"')])
  })

  it('alone mean the one of the default project, or of the project of the key, whatever others make', async () => {
    const make = (project: string) =>
      service.json('/v1/preview/models', { json: { project, name: 'orders', base_model: 'trainyard/tiny-random' } })
    for (const project of ['p1', 'default', 'p2']) await make(project)
    const { body: own } = await service.json<{ key: string }>('/v1/preview/keys', {
      json: { project: 'p2', scope: 'read' },
    })
    const rootOf = async (headers: Record<string, string>) =>
      (await service.json<{ root: string }>('/v1/models/orders', { headers })).body.root
    expect(await rootOf({})).toBe('local/default/orders')
    expect(await rootOf({ authorization: `Bearer ${own.key}` })).toBe('local/p2/orders')
    const prompts: readonly (readonly [string, object])[] = [
      [CHAT, say('x', { model: 'orders' })],
      ['/v1/completions', { model: 'orders', prompt: 'x', max_tokens: 2 }],
      ['/v1/responses', { model: 'orders', input: 'x' }],
      ['/tokenize', { model: 'orders', prompt: 'x' }],
    ]
    for (const [path, json] of prompts) expect((await service.json(path, { json })).status, path).toBe(200)
  })

  it('are listed, base models first', async () => {
    const { body } = await service.json<{ data: { id: string; parent: string | null }[] }>('/v1/models')
    expect(body.data[0]?.id).toBe('trainyard/tiny-random')
    expect(body.data).toContainEqual(expect.objectContaining({ id: 'local/tests/m', parent: 'trainyard/tiny-random' }))
  })

  it('are listed with every checkpoint, and each name of the list answers and is described', async () => {
    const { body } = await service.json<{ data: { id: string; parent: string | null; root: string }[] }>('/v1/models')
    const ids = body.data.map(({ id }) => id)
    expect(ids).toEqual(expect.arrayContaining(['local/tests/m', 'local/tests/m:step1', 'local/tests/m:step2']))
    for (const card of body.data) {
      const { status, body: answer } = await service.json<{ model: string }>(CHAT, {
        json: say('hi', { model: card.id }),
      })
      expect([status, answer.model]).toEqual([200, card.id])
      expect((await service.json(`/v1/models/${card.id}`)).body).toEqual(card)
    }
  })

  it.each([
    ['wandb-artifact:///local/tests/m', 'local/tests/m'],
    ['wandb-artifact://local/tests/m:step1', 'local/tests/m:step1'],
    ['m:v2', 'local/tests/m:step2'],
    ['tests/m:latest', 'local/tests/m'],
    ['hosted_vllm/wandb-artifact:///local/tests/m:step2', 'local/tests/m:step2'],
    ['hosted_vllm/trainyard/tiny-random', 'trainyard/tiny-random'],
  ])('%s is described as %s', async (name, id) => {
    const { status, body } = await service.json<{ id: string }>(`/v1/models/${encodeURIComponent(name)}`)
    expect([status, body.id]).toEqual([200, id])
    expect((await service.json(CHAT, { json: say('hi', { model: name }) })).status).toBe(200)
  })

  it('that are not there are not described', async () => {
    for (const name of ['nobody', 'm:step9', 'local/tests/m:newest', 'others/tests/m', 'a\rb', 'a\n/b', 'a\u2028']) {
      expect((await service.json(`/v1/models/${encodeURIComponent(name)}`)).status).toBe(404)
    }
  })
})

describe('answers', () => {
  it('have every field, nulls included', async () => {
    const { body } = await service.json<Record<string, unknown>>(CHAT, { json: say('hi', { request_id: 'r1' }) })
    expect(chatResponseSchema.parse(body)).toEqual(body)
    expect(body).toEqual({
      id: 'chatcmpl-r1',
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'trainyard/tiny-random',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'base:hi',
            refusal: null,
            annotations: null,
            audio: null,
            function_call: null,
            tool_calls: [],
            reasoning: null,
            reasoning_content: null,
          },
          logprobs: null,
          finish_reason: 'stop',
          stop_reason: null,
          token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: 'trainyard/tiny-random:step0:base',
      usage: { prompt_tokens: 7, completion_tokens: 8, total_tokens: 15, prompt_tokens_details: { cached_tokens: 0 } },
      prompt_logprobs: null,
      prompt_token_ids: null,
      kv_transfer_params: null,
    })
  })

  it('of a trainable model carry exact tokens without being asked', async () => {
    const { body } = await service.json<{
      choices: { token_ids: number[]; logprobs: { content: { token: string; bytes: number[] }[] } }[]
      prompt_token_ids: number[]
      usage: { completion_tokens: number; prompt_tokens: number }
    }>(CHAT, { json: say('hi', { model: 'm', n: 3 }) })
    expect(body.choices).toHaveLength(3)
    for (const choice of body.choices) {
      expect(choice.logprobs.content.map((entry) => entry.token)).toEqual(
        choice.token_ids.map((id) => `token_id:${id}`),
      )
      expect(choice.logprobs.content[0]?.bytes).toEqual([...Buffer.from('s')])
    }
    expect(body.usage.completion_tokens).toBe(body.choices.reduce((sum, choice) => sum + choice.token_ids.length, 0))
    expect(body.prompt_token_ids).toHaveLength(body.usage.prompt_tokens)
  })

  it('list the sampled token first, then alternatives by rank, as asked', async () => {
    const { body } = await service.json<{
      choices: { logprobs: { content: { token: string; top_logprobs: { token: string; bytes: number[] }[] }[] } }[]
    }>(CHAT, { json: say('hi', { logprobs: true, top_logprobs: 3, max_tokens: 1 }) })
    const entry = body.choices[0]?.logprobs.content[0]
    expect(entry?.token).toBe('b')
    expect(entry?.top_logprobs.map((top) => top.token)).toEqual(['b', '~', '^'])
  })

  it('show ids as tokens when asked, and the bytes of the token all the same', async () => {
    const { body } = await service.json<{
      choices: { logprobs: { content: { token: string; bytes: number[]; top_logprobs: { bytes: number[] }[] }[] } }[]
    }>(CHAT, { json: say('hi', { logprobs: true, top_logprobs: 1, max_tokens: 1, return_tokens_as_token_ids: true }) })
    const entry = body.choices[0]?.logprobs.content[0]
    expect(entry).toMatchObject({ token: 'token_id:98', bytes: [98] })
    expect(entry?.top_logprobs).toMatchObject([{ token: 'token_id:98', bytes: [98] }])
  })

  it('take the id from X-Request-Id before the body', async () => {
    const response = await service.fetch(CHAT, {
      json: say('hi', { request_id: 'b' }),
      headers: { 'x-request-id': 'h' },
    })
    expect(((await response.json()) as { id: string }).id).toBe('chatcmpl-h')
    expect(response.headers.get('x-request-id')).toBe('h')
  })
})

describe('streams', () => {
  it('open with a role per choice, and their text equals the whole answer', async () => {
    const { chunks, response } = await streamChunks(say('hi', { n: 2, return_token_ids: true }))
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    for (const chunk of chunks) expect(chatChunkSchema.parse(chunk)).toEqual(chunk)
    expect(chunks.slice(0, 2).map((chunk) => [chunk.choices[0]?.index, chunk.choices[0]?.delta])).toEqual([
      [0, { role: 'assistant', content: '' }],
      [1, { role: 'assistant', content: '' }],
    ])
    expect(chunks.filter((chunk) => chunk.prompt_token_ids !== undefined)).toHaveLength(2)
    const whole = await service.json<{ choices: { message: { content: string }; token_ids: number[] }[] }>(CHAT, {
      json: say('hi', { n: 2, return_token_ids: true }),
    })
    for (const index of [0, 1]) {
      const own = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index)
      expect(own.map((choice) => choice.delta.content).join('')).toBe(whole.body.choices[index]?.message.content)
      expect(own.flatMap((choice) => choice.token_ids ?? [])).toEqual(whole.body.choices[index]?.token_ids)
      expect(own.filter((choice) => choice.finish_reason !== null)).toHaveLength(1)
      expect(own.at(-1)?.finish_reason).toBe('stop')
    }
    expect(chunks.every((chunk) => chunk.usage === undefined)).toBe(true)
  })

  it('end with usage when asked, once, behind all choices', async () => {
    const { chunks } = await streamChunks(say('hi', { stream_options: { include_usage: true } }))
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 7, completion_tokens: 8, total_tokens: 15 },
    })
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === undefined)).toBe(true)
  })

  it('carry growing usage on every chunk when asked', async () => {
    const options = { include_usage: true, continuous_usage_stats: true }
    const { chunks } = await streamChunks(say('hi', { stream_options: options }))
    const counts = chunks.slice(0, -1).map((chunk) => chunk.usage?.completion_tokens ?? -1)
    expect(counts[0]).toBe(0)
    expect(counts.slice(1)).toEqual(counts.slice(1).map((_, i) => i + 1))
  })
})

describe('faults', () => {
  async function untilIdle(): Promise<void> {
    // the stand-in counts requests; an endless one that was not aborted would keep it busy for ever
    await until(async () => (await countRunning()) === 'running:0', 'an idle engine')
  }
  async function countRunning(): Promise<string | undefined> {
    const { body } = await service.json<{ choices: { message: { content: string } }[] }>(CHAT, { json: say('COUNT') })
    return body.choices[0]?.message.content
  }

  it.each([true, false])('a client that leaves frees its slot (stream %s)', async (stream) => {
    const gone = new AbortController()
    const request = service.fetch(CHAT, { json: say('FOREVER', { stream }), signal: gone.signal })
    if (stream) {
      const reader = (await request).body?.getReader()
      await reader?.read()
      await reader?.cancel()
      gone.abort()
    } else {
      await until(async () => (await countRunning()) === 'running:1', 'a request that runs')
      gone.abort()
      await expect(request).rejects.toThrow()
    }
    await untilIdle()
  })

  it('an engine that dies ends requests in flight with a clear error, and the next ones work', async () => {
    const opened = await service.fetch(CHAT, { json: say('FOREVER', { stream: true }) })
    const reader = opened.body?.getReader()
    const firstBytes = await reader?.read()
    const waiting = service.json(CHAT, { json: say('FOREVER') })
    await until(async () => (await countRunning()) === 'running:2', 'two requests that run')
    const whole = await service.json(CHAT, { json: say('SLOW CRASH') })
    const innocent = await waiting
    let stream = new TextDecoder().decode(firstBytes?.value)
    for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
      stream += new TextDecoder().decode(next.value)
    }
    for (const { status, body } of [whole, innocent]) {
      expect(status).toBe(503)
      expect(body).toMatchObject({ error: { message: expect.stringContaining('was ended by SIGKILL and restarts') } })
    }
    expect(stream).toContain('"error":{')
    expect(stream.trimEnd().endsWith('data: [DONE]')).toBe(true)
    const after = await service.json<{ choices: { message: { content: string } }[] }>(CHAT, { json: say('hi') })
    expect(after.body.choices[0]?.message.content).toBe('base:hi')
    expect((await service.json<{ gpu_queue: unknown }>('/v1/system-check')).body.gpu_queue).toMatchObject({
      success: true,
    })
  })
})
