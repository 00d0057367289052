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

const ITEM = { a: 'the cat sat on the mat', n: [1, { k: 'v' }], none: null }
const SAID = 'the cat sat on a mat'
const check = (operation: 'eq' | 'ne' | 'like' | 'ilike', input: string, reference: string) => ({
  ...{ type: 'string_check' as const, name: 's' },
  ...{ operation, input, reference },
})
const alike = (metric: string) => ({
  ...{ type: 'text_similarity' as const, name: 't', evaluation_metric: metric as 'fuzzy_match' },
  ...{ input: '{{ sample.output_text }}', reference: '{{ item.a }}' },
})
const several = (calculate: string, graders: unknown = { s: check('eq', 'a', 'a'), t: alike('fuzzy_match') }) => ({
  ...{ type: 'multi' as const, name: 'm', calculate_output: calculate },
  graders: graders as never,
})
type Published = Parameters<OpenAI['fineTuning']['alpha']['graders']['run']>[0]['grader']

/** What OpenAI says of each kind. Sources: its pages on graders and reinforcement, types of `openai` 7.59. */
describe('as published', () => {
  it.each<[string, Published, number]>([
    ['eq minds case', check('eq', 'a', 'A'), 0],
    ['ne', check('ne', 'a', 'A'), 1],
    ['neq, as its guide also has it', { ...check('eq', 'a', 'A'), operation: 'neq' as never }, 1],
    ['like: the input contains the reference', check('like', 'the cat', 'cat'), 1],
    ['like, the other way round', check('like', 'cat', 'the cat'), 0],
    ['like minds case', check('like', 'the Cat', 'cat'), 0],
    ['ilike does not', check('ilike', 'the Cat', 'cat'), 1],
    ['fuzzy_match', alike('fuzzy_match'), 0.95],
    ['bleu', alike('bleu'), 0.537285],
    ['gleu', alike('gleu'), 0.611111],
    ['meteor', alike('meteor'), 0.743333],
    ['rouge_1', alike('rouge_1'), 0.833333],
    ['rouge_2', alike('rouge_2'), 0.6],
    ['rouge_3', alike('rouge_3'), 0.5],
    ['rouge_4', alike('rouge_4'), 0.333333],
    ['rouge_5', alike('rouge_5'), 0],
    ['rouge_l', alike('rouge_l'), 0.833333],
    ['a path into a list', check('eq', '{{ item.n[1].k }}', 'v'), 1],
    ['a path in brackets', check('eq', "{{item['n'][1]['k']}}", 'v'), 1],
    ['a value that is no text', check('eq', '{{item.n}}', '[1,{"k":"v"}]'), 1],
    ['a value that is null', check('eq', '{{item.none}}', ''), 0],
    ['a map of graders', several('0.5 * s + t / 2'), 0.975],
    ['a list of them, by their names', several('max(s, t)', [check('eq', 'a', 'a'), alike('bleu')]), 1],
    ['one of them, as the type of the client has it', several('2 * s', check('eq', 'a', 'a')), 2],
    ['all functions', several('min(s, 2) + abs(-s) * floor(1.5) / ceil(0.5) + exp(0) + sqrt(4) + log(1) + 2 ^ 3'), 13],
  ])('%s', async (_, grader, reward) => {
    const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: SAID, item: ITEM })
    expect(run.reward).toBeCloseTo(reward, 5)
  })

  it.each(['text', 'input_text', 'output_text', 'list'] as const)('messages with content of kind %s', async (kind) => {
    const text = '{"steps":[],"result":7}'
    const part = { type: kind === 'output_text' ? kind : ('input_text' as const), text }
    const content = kind === 'text' ? text : kind === 'list' ? [text.slice(0, -1), part] : part
    const input = [{ role: 'user' as const, type: 'message' as const, content: content as never }]
    const grader = {
      type: 'score_model' as const,
      name: 'judge',
      model: 'trainyard/tiny-random',
      range: [0, 10],
      input,
    }
    const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: 'x' })
    // the scripted engine repeats what it was asked: a list is joined, and no JSON any more
    expect(run.metadata.errors.model_grader_parse_error).toBe(kind === 'list')
    if (kind !== 'list') expect(run.reward).toBe(7)
  })

  it.each(['input_image', 'input_audio'])('no %s: refused by name', async (type) => {
    const content = { type, image_url: 'https://1.1.1.1/x.png', input_audio: { data: '', format: 'mp3' } } as never
    const input = [{ role: 'user' as const, content }]
    const grader = { type: 'score_model' as const, name: 'judge', model: 'trainyard/tiny-random', input }
    const refused = client.fineTuning.alpha.graders.validate({ grader })
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'grader.input[0].content' })
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

  it('is asked with all that its sampling_params may say', async () => {
    const sampling = {
      ...{ seed: 7, temperature: 0.5, top_p: 0.9 },
      ...{ max_completions_tokens: 64, reasoning_effort: 'low' as const },
    }
    const grader = { ...judge('trainyard/tiny-random', '{"steps":[],"result":0.75}'), sampling_params: sampling }
    const run = await client.fineTuning.alpha.graders.run({ grader, model_sample: 'x' })
    expect(run.metadata).toMatchObject({ error_details: [] })
    expect(run.reward).toBe(0.75)
    const refused = client.fineTuning.alpha.graders.validate({ grader: { ...grader, sampling_params: { seed: 1.5 } } })
    await expect(refused).rejects.toMatchObject({ status: 400, param: 'grader.sampling_params.seed' })
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
