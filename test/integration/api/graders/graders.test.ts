/**
 * `/v1/fine_tuning/alpha/graders`: what the stock client gets, what is refused and how, and numbers of rows as they were written.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService()
  client = new OpenAI({ apiKey: service.apiKey, baseURL: `${service.url}/v1`, maxRetries: 0 })
})
afterAll(() => service.dispose())

const right = {
  type: 'string_check' as const,
  name: 'right',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
  operation: 'eq' as const,
}
const near = {
  type: 'text_similarity' as const,
  name: 'near',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
  evaluation_metric: 'fuzzy_match' as const,
}
const RUN = '/v1/fine_tuning/alpha/graders/run'
const VALIDATE = '/v1/fine_tuning/alpha/graders/validate'

describe('the OpenAI client for Node', () => {
  it('runs a grader', async () => {
    const graders = client.fineTuning.alpha.graders
    const run = await graders.run({ grader: right, model_sample: 'Paris', item: { answer: 'Paris' } })
    expect(run).toMatchObject({
      reward: 1,
      sub_rewards: {},
      model_grader_token_usage_per_model: {},
      metadata: { name: 'right', type: 'string_check', scores: { right: 1 }, sampled_model_name: null },
    })
    expect(Object.keys(run.metadata.errors)).toHaveLength(14)
    expect(Object.values(run.metadata.errors).every((each) => each === false || each === null)).toBe(true)
    expect(run.metadata.execution_time).toBeGreaterThanOrEqual(0)
  })

  it('compares one text after the other for one key: many that take long keep nobody else waiting', async () => {
    const text = (seed: number) =>
      Array.from({ length: 8192 }, (_, i) => 'ab cd'[(i * 7919 + ((i * i) % seed)) % 5]).join('')
    const item = { answer: text(29).slice(0, 3000) }
    const graders = Object.fromEntries([...'abcd'].map((key) => [key, { ...near, name: key }]))
    const many = { type: 'multi' as const, name: 'many', graders, calculate_output: 'a + b + c + d' }
    const json = { grader: many, model_sample: text(13), item }
    let ended = 0
    const grading = [1, 2].map(async () => {
      const { status } = await service.json(RUN, { json })
      ended += 1
      return status
    })
    const { key } = await service.createKey({ entity: 'others' })
    const other = new OpenAI({ apiKey: key, baseURL: `${service.url}/v1`, maxRetries: 0 })
    const run = await other.fineTuning.alpha.graders.run({
      grader: near,
      model_sample: 'Pari',
      item: { answer: 'Paris' },
    })
    expect(run.reward).toBeGreaterThan(0.5)
    expect(ended, 'of eight comparisons of another key that were there first').toBe(0)
    expect(await Promise.all(grading)).toEqual([200, 200])
  })

  it('runs several, of which one errs: 0 for it, and its flag', async () => {
    const broken = { ...right, name: 'broken', reference: '{{item.gone}}' }
    // the type of the SDK has one grader, its guide a map
    const grader = {
      type: 'multi' as const,
      name: 'all',
      graders: { right, near, broken },
      calculate_output: 'right + near + broken',
    }
    const run = await client.fineTuning.alpha.graders.run({
      grader: grader as never,
      model_sample: 'Paris',
      item: { answer: 'Paris' },
    })
    expect(run).toMatchObject({ reward: 2, sub_rewards: { right: 1, near: 1, broken: 0 } })
    expect(run.metadata.errors.invalid_variable_error).toBe(true)
    expect(run.metadata).toMatchObject({ error_details: [{ flag: 'invalid_variable_error', grader: 'broken' }] })
  })

  it('validates a grader, and says where one is wrong', async () => {
    const graders = client.fineTuning.alpha.graders
    expect(await graders.validate({ grader: near })).toEqual({ grader: near })
    const refused = graders.validate({ grader: { ...near, evaluation_metric: 'cosine' } })
    await expect(refused).rejects.toMatchObject({
      status: 400,
      code: 'invalid_grader',
      param: 'grader.evaluation_metric',
    })
  })
})

describe('graders over HTTP', () => {
  it('numbers of rows and answers stand as they were written', async () => {
    const grader = { ...right, input: '{{item.id}} {{item.price}}', reference: '12345678901234567890 5.0' }
    const body = JSON.stringify({ grader, item: 0, model_sample: '' }).replace(
      '"item":0',
      '"item":{"id":12345678901234567890,"price":5.0}',
    )
    const response = await service.fetch(RUN, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
    expect(await response.json()).toMatchObject({ reward: 1 })
  })

  it('takes an answer of chat with calls of tools', async () => {
    const calls = [{ id: 'c', type: 'function', function: { name: 'look', arguments: '{"x":1}' } }]
    const grader = { ...right, input: '{{sample.output_tools[0].function.arguments}}', reference: '{"x":1}' }
    const json = {
      grader,
      model_sample: { choices: [{ message: { role: 'assistant', content: null, tool_calls: calls } }] },
    }
    expect((await service.json(RUN, { json })).body).toMatchObject({ reward: 1 })
  })

  it.each([
    [{ ...right, operation: 'is' }, 'grader.operation'],
    [{ ...right, reference: '{{row.answer}}' }, 'grader.reference'],
    [{ type: 'multi', graders: { right }, calculate_output: 'left' }, 'grader.calculate_output'],
    [
      {
        type: 'multi',
        graders: { right, m: { type: 'multi', graders: { near }, calculate_output: 'near' } },
        calculate_output: 'right',
      },
      'grader.graders.m.type',
    ],
  ])('validate refuses %o at %s', async (grader, param) => {
    const { status, body } = await service.json(VALIDATE, { json: { grader } })
    expect(status).toBe(400)
    expect(body).toMatchObject({ error: { code: 'invalid_grader', param } })
  })

  it.each([
    [{ grader: right }, 'model_sample'],
    [{ model_sample: '' }, 'grader'],
    [{ grader: right, model_sample: '', item: [] }, 'item'],
  ])('refuses %o', async (json, field) => {
    const { status, body } = await service.json<{ error: { param: string } }>(RUN, { json })
    expect(status).toBe(400)
    expect(body.error.param).toContain(field)
  })

  it('needs a key', async () => {
    const json = { grader: right, model_sample: '' }
    expect((await service.json(RUN, { json, headers: { authorization: 'Bearer no' } })).status).toBe(401)
  })
})

describe('graders that ask a model', () => {
  const judge = (model: string, said: string) => ({
    type: 'score_model' as const,
    name: 'judge',
    model,
    // the scripted engine repeats the last message
    input: [{ role: 'user' as const, content: said }],
  })

  it('ask one of the service, and say what it took', async () => {
    const grader = judge('trainyard/tiny-random', '{"steps":[],"result":0.75}')
    const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: 'x' })
    expect(run).toMatchObject({ reward: 0.75, metadata: { sampled_model_name: 'trainyard/tiny-random' } })
    const tokens = { prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) }
    expect(run.model_grader_token_usage_per_model).toMatchObject({ 'trainyard/tiny-random': tokens })
    const usage = run.metadata.token_usage as unknown as { readonly total_tokens: number }
    expect(usage.total_tokens).toBeGreaterThan(0)
  })

  it('err by a flag where it cannot be read, and the request succeeds', async () => {
    const grader = judge('trainyard/tiny-random', 'I cannot say.')
    const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: 'x' })
    expect([run.reward, run.metadata.errors.model_grader_parse_error]).toEqual([0, true])
  })

  it('name one that is not there: 404 with what is', async () => {
    for (const path of [RUN, VALIDATE]) {
      const json = { grader: judge('gpt-4o', 'x'), ...(path === RUN ? { model_sample: '' } : {}) }
      const { status, body } = await service.json(path, { json })
      expect(status).toBe(404)
      expect(body).toMatchObject({
        error: { code: 'grader_model_not_found', hint: expect.stringContaining('--teacher') },
      })
    }
  })
})

describe('graders at an endpoint', () => {
  const far = (url: string) => ({ type: 'endpoint', name: 'far', url })
  let endpoint: Server
  let host = ''
  beforeAll(async () => {
    endpoint = createServer((request, response) => {
      request.resume()
      response.end('{"score":0.25}')
    })
    await new Promise<void>((resolve) => endpoint.listen(0, '127.0.0.1', resolve))
    host = `127.0.0.1:${(endpoint.address() as AddressInfo).port}`
  })
  afterAll(() => endpoint.close())

  it('are refused where webhooks would be', async () => {
    for (const url of ['https://localhost/x', 'https://10.0.0.1/x', `http://${host}/x`]) {
      const { status, body } = await service.json(RUN, { json: { grader: far(url), model_sample: '' } })
      expect([url, status]).toEqual([url, 400])
      expect(body).toMatchObject({ error: { code: 'grader_refused', param: 'grader.url' } })
    }
  })

  it('are asked at a host that the operator allowed, by a key that may write', async () => {
    const own = await createTestService({ pluginSettings: { 'grader-hosts': [host] } })
    try {
      const json = { grader: far(`http://${host}/x`), model_sample: '' }
      expect((await own.json(RUN, { json })).body).toMatchObject({ reward: 0.25 })
      const made = await own.json<{ readonly key: string }>('/v1/preview/keys', {
        json: { name: 'reader', scope: 'read' },
      })
      const headers = { authorization: `Bearer ${made.body.key}` }
      expect((await own.json(RUN, { json, headers })).status).toBe(403)
      const pure = { grader: right, model_sample: 'a', item: { answer: 'a' } }
      expect((await own.json(RUN, { json: pure, headers })).body).toMatchObject({ reward: 1 })
    } finally {
      await own.dispose()
    }
  })
})
