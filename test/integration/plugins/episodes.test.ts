/**
 * A reinforcement job of Azure's client with an endpoint grader, `tools` and `max_episode_steps`, against a local server
 * that is busy, fails and says nothing now and then: the job ends, and what the server said is what was trained on.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AzureOpenAI, BadRequestError, toFile } from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Loop } from '#plugins/loops/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const CITIES = ['Paris', 'Cairo', 'Oslo', 'Berlin', 'Rome', 'Lima']
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const DESCRIBED = { name: 'get_weather', description: 'Get the weather of a city.', parameters: PARAMETERS }

interface Call {
  readonly name: string
  readonly call_id: string
  readonly arguments: string
  readonly trace_id: string
}

let server: Server
let service: TestService
let host: string
/** What the tool was asked, as often as it was; and what the grader was. */
const calls: Call[] = []
const graded: { sample: { output_text: string }; item: { city: string } }[] = []
beforeAll(async () => {
  server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      response.setHeader('content-type', 'application/json')
      if (request.url === '/grade') {
        graded.push(JSON.parse(text))
        if (graded.length % 5 === 1) return void response.writeHead(graded.length % 2 === 0 ? 429 : 500).end()
        return void response.end(JSON.stringify({ score: graded.length % 3 }))
      }
      calls.push(JSON.parse(text) as Call)
      const { call_id: id } = calls.at(-1) as Call
      if (request.headers['x-key'] !== 'secret') return void response.writeHead(401).end('{}')
      // busy, broken, silent: each is asked again
      if (calls.length === 1) return void response.writeHead(429).end()
      if (calls.length === 2) return void response.writeHead(503).end()
      if (calls.length === 3) return
      if (calls.length % 4 === 0) return void response.writeHead(404).end('{"detail": "no such city"}')
      response.end(JSON.stringify({ type: 'function_call_output', call_id: id, output: '{"temperature": 21}' }))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  service = await createTestService({
    ...{ scripted: false, threads: 1, baseModels: ['trainyard/spark'], webhookHosts: [host] },
    pluginSettings: { 'grader-hosts': [host] },
    tuning: { plugins: { loops: { pollMs: 20, retryMs: 10, tools: { timeoutMs: 500, retryMs: 5 } } } },
  })
}, 300_000)
afterAll(async () => {
  await service.dispose()
  server.closeAllConnections()
  await new Promise((done) => server.close(done))
})

it('a job of episodes', { timeout: 900_000 }, async () => {
  const client = new AzureOpenAI({ endpoint: service.url, apiKey: service.apiKey, apiVersion: 'preview' })
  const rows = CITIES.map((city) => ({
    messages: [{ role: 'user', content: `What is the weather in ${city}?` }],
    tools: [{ type: 'function', function: DESCRIBED }],
    city,
  }))
  const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
  const file = await client.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose: 'fine-tune' })
  const create = (more: object) =>
    client.fineTuning.jobs.create({
      model: 'trainyard/spark',
      training_file: file.id,
      seed: 5,
      method: {
        type: 'reinforcement',
        // what the SDK has no types for
        reinforcement: {
          grader: { type: 'endpoint', name: 'right', url: `http://${host}/grade` },
          hyperparameters: { n_epochs: 1, batch_size: 3, compute_multiplier: 0.5, eval_interval: 1 },
          ...more,
        } as never,
      },
    })
  const at = { name: 'get_weather', server_url: `http://${host}/tools` }
  for (const [more, param] of [
    [{ tools: [{ ...at, server_url: 'http://10.0.0.1/' }] }, 'tools[0].server_url'],
    [{ tools: [{ ...at, retries: 3 }] }, 'tools[0].retries'],
    [{ max_episode_steps: 3 }, 'max_episode_steps'],
    [{ tools: [at], max_episode_steps: 0 }, 'max_episode_steps'],
  ] as const) {
    const refused = await create(more).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(BadRequestError)
    expect((refused as BadRequestError).param).toBe(`method.reinforcement.${param}`)
  }
  const made = await create({ tools: [{ ...at, headers: { 'x-key': 'secret' } }], max_episode_steps: 3 })
  expect(made.method?.reinforcement).toMatchObject({
    tools: [{ ...at, headers: { 'x-key': '***' } }],
    max_episode_steps: 3,
  })
  const job = await until(
    async () => {
      const now = await client.fineTuning.jobs.retrieve(made.id)
      return now.finished_at === null ? null : now
    },
    'the end of the job',
    800_000,
  )
  expect(job.status, JSON.stringify(job.error)).toBe('succeeded')
  expect(calls.length).toBeGreaterThan(4)
  for (const call of calls) {
    expect(call).toMatchObject({ type: 'function_call', trace_id: expect.stringMatching(/^trace_/) })
  }
  // the first call came to its answer at the fourth try
  const [first] = calls
  const tries = calls.filter(({ trace_id: id, call_id: of }) => id === first?.trace_id && of === first.call_id)
  expect(tries.length).toBeLessThanOrEqual(4)
  const events = (await client.fineTuning.jobs.listEvents(job.id, { limit: 100 })).data
  const metrics = events.flatMap(({ type, data }) => (type === 'metrics' ? [data as Record<string, number>] : []))
  const counted = metrics.reduce((sum, { tool_calls: count = 0 }) => sum + count, 0)
  expect(counted).toBeGreaterThan(0)
  expect(graded.length).toBeGreaterThan(0)
})

it('a loop of our own API has the same episodes, shows its tools without their keys, and refuses what it refuses', {
  timeout: 900_000,
}, async () => {
  const rows = CITIES.map((city) => ({
    messages: [{ role: 'user', content: `What is the weather in ${city}?` }],
    tools: [{ type: 'function', function: DESCRIBED }],
    city,
  }))
  const body = rows.map((row) => JSON.stringify(row)).join('\n')
  const file = await service.json<{ id: string }>('/v1/files?filename=prompts.jsonl', { method: 'POST', body })
  const model = await service.json<{ id: string }>('/v1/preview/models', {
    json: { project: 'episodes', name: 'native', base_model: 'trainyard/spark' },
  })
  const at = { name: 'get_weather', server_url: `http://${host}/tools`, headers: { 'x-key': 'secret' } }
  const create = (more: object) =>
    service.json<Loop & { error: { param: string } }>('/v1/preview/loops', {
      json: {
        ...{ model_id: model.body.id, prompts_file: file.body.id, held_out_rows: 0, steps: 1, seed: 4 },
        ...{ prompts_per_step: 3, answers_per_prompt: 4, sampling: { max_completion_tokens: 48 } },
        grader: { type: 'endpoint', name: 'right', url: `http://${host}/grade` },
        ...more,
      },
    })
  for (const [more, param] of [
    [{ tools: [{ ...at, server_url: 'http://10.0.0.1/' }] }, 'tools[0].server_url'],
    [{ tools: [{ ...at, retries: 3 }] }, 'tools[0].retries'],
    [{ max_episode_steps: 3 }, 'max_episode_steps'],
  ] as const) {
    const { status, body: refused } = await create(more)
    expect([status, refused.error.param]).toEqual([422, param])
  }
  const before = calls.length
  const { status, body: made } = await create({ tools: [at], max_episode_steps: 2 })
  expect(status, JSON.stringify(made)).toBe(200)
  expect(made).toMatchObject({ tools: [{ ...at, headers: { 'x-key': '***' } }], max_episode_steps: 2 })
  const loop = await until(
    async () => {
      const { body: now } = await service.json<Loop>(`/v1/preview/loops/${made.id}`)
      return now.ended_at === null ? null : now
    },
    'the end of the loop',
    800_000,
  )
  expect(loop.status, JSON.stringify(loop.error)).toBe('succeeded')
  const asked = calls.slice(before)
  expect(asked.length).toBeGreaterThan(0)
  expect(new Set(asked.map(({ name }) => name))).toEqual(new Set(['get_weather']))
})
