/**
 * OpenAI's evals by its own client: given answers and answers of a model are measured, by whoever's they are, bounded, and
 * where the server stopped in the middle the rest is.
 */
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

const MODEL = 'trainyard/tiny-random'
const EQUAL = {
  ...{ type: 'string_check' as const, name: 'equal', operation: 'eq' as const },
  ...{ input: '{{sample.output_text}}', reference: '{{item.answer}}' },
}
const NEAR = {
  ...{ type: 'text_similarity' as const, name: 'near', evaluation_metric: 'fuzzy_match' as const, pass_threshold: 0.5 },
  ...{ input: '{{sample.output_text}}', reference: '{{item.answer}}' },
}
const CONFIG = { type: 'custom' as const, item_schema: { type: 'object', properties: { answer: { type: 'string' } } } }

let service: TestService
let client: OpenAI
beforeAll(async () => {
  service = await createTestService({ tuning: { plugins: { evals: { retryMs: 20 } } } })
  client = clientOf(service.apiKey)
})
afterAll(() => service.dispose())

const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${service.url}/v1`, apiKey, maxRetries: 0 })

const create = (criteria: readonly object[] = [EQUAL], by = client) =>
  by.evals.create({
    name: 'mine',
    data_source_config: CONFIG,
    testing_criteria: criteria as never,
    metadata: { a: 'b' },
  })
const given = (...rows: readonly (readonly [string, string])[]) => ({
  type: 'jsonl' as const,
  source: {
    type: 'file_content' as const,
    content: rows.map(([answer, output]) => ({ item: { answer }, sample: { output_text: output } })),
  },
})
const asked = (content: string, questions: readonly string[], more: object = {}) => ({
  type: 'completions' as const,
  model: MODEL,
  input_messages: { type: 'template' as const, template: [{ role: 'user' as const, content }] },
  source: {
    type: 'file_content' as const,
    content: questions.map((question) => ({ item: { question, answer: 'x' } })),
  },
  ...more,
})
const untilEnded = (evalId: string, runId: string, by = client) =>
  until(async () => {
    const run = await by.evals.runs.retrieve(runId, { eval_id: evalId })
    return ['completed', 'failed', 'canceled'].includes(run.status) && run
  }, 'the end of a run')

describe('an eval', () => {
  it('is made, listed, renamed and deleted', async () => {
    const made = await create()
    expect(made).toMatchObject({
      object: 'eval',
      name: 'mine',
      metadata: { a: 'b' },
      data_source_config: { type: 'custom', schema: { properties: { item: CONFIG.item_schema } } },
      testing_criteria: [EQUAL],
    })
    expect((await client.evals.update(made.id, { name: 'other' })).name).toBe('other')
    const listed: string[] = []
    for await (const each of client.evals.list({ limit: 1, order: 'desc' })) listed.push(each.id)
    expect(listed).toContain(made.id)
    expect(await client.evals.delete(made.id)).toMatchObject({ deleted: true, eval_id: made.id })
    await expect(client.evals.retrieve(made.id)).rejects.toThrow(OpenAI.NotFoundError)
  })

  it('measures answers that are given: what passes, what does not, and what errs', async () => {
    const { id } = await create([EQUAL, NEAR])
    const source = given(['4', '4'], ['forty two', 'forty too'], ['4', 'nothing at all'])
    const made = await client.evals.runs.create(id, { name: 'first', data_source: source })
    expect(made).toMatchObject({ object: 'eval.run', eval_id: id, name: 'first', result_counts: { total: 3 } })
    const run = await untilEnded(id, made.id)
    expect(run, JSON.stringify(run.error)).toMatchObject({
      status: 'completed',
      result_counts: { total: 3, passed: 1, failed: 2, errored: 0 },
      per_testing_criteria_results: [
        { testing_criteria: 'equal', passed: 1, failed: 2 },
        { testing_criteria: 'near', passed: 2, failed: 1 },
      ],
      error: null,
    })
    const items = (await client.evals.runs.outputItems.list(run.id, { eval_id: id })).data
    expect(items.map(({ status, datasource_item_id: at }) => [at, status])).toEqual([
      [0, 'pass'],
      [1, 'fail'],
      [2, 'fail'],
    ])
    expect(items[0]).toMatchObject({
      datasource_item: { answer: '4' },
      results: [
        { name: 'equal', type: 'string_check', score: 1, passed: true },
        { name: 'near', score: 1, passed: true },
      ],
      sample: { output: [{ role: 'assistant', content: '4' }], error: null },
    })
    const one = await client.evals.runs.outputItems.retrieve(items[1]?.id ?? '', { eval_id: id, run_id: run.id })
    expect(one).toEqual(items[1])
    const failed = await client.evals.runs.outputItems.list(run.id, { eval_id: id, status: 'fail', limit: 1 })
    expect(failed.data).toHaveLength(1)
    expect((await client.evals.runs.list(id)).data.map((each) => each.id)).toEqual([run.id])
  })

  it('measures a file of answers', async () => {
    const rows = [
      { item: { answer: 'a' }, sample: 'a' },
      { item: { answer: 'a' }, sample: { output_text: 'b' } },
    ]
    const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('')
    const file = await client.files.create({ file: await toFile(Buffer.from(text), 'rows.jsonl'), purpose: 'evals' })
    const { id } = await create()
    const source = { type: 'jsonl' as const, source: { type: 'file_id' as const, id: file.id } }
    const { id: runId } = await client.evals.runs.create(id, { data_source: source })
    expect((await untilEnded(id, runId)).result_counts).toEqual({ total: 2, passed: 1, failed: 1, errored: 0 })
  })

  it.each(['completions', 'responses'] as const)('asks a model by %s, its messages made of the row', async (type) => {
    const { id } = await create([NEAR])
    const source = {
      ...asked('Say {{item.question}}!', ['one', 'two']),
      type,
      sampling_params: { seed: 7, temperature: 0 },
    }
    const { id: runId } = await client.evals.runs.create(id, { data_source: source as never })
    const run = await untilEnded(id, runId)
    expect(run.status, JSON.stringify(run.error)).toBe('completed')
    expect(run.model).toBe(MODEL)
    expect(run.per_model_usage).toMatchObject([{ model_name: MODEL, invocation_count: 2 }])
    const [first] = (await client.evals.runs.outputItems.list(runId, { eval_id: id })).data
    expect(first?.sample).toMatchObject({
      ...{ input: [{ role: 'user', content: 'Say one!' }], model: MODEL, seed: 7, temperature: 0 },
      usage: { total_tokens: expect.any(Number) },
    })
    expect(first?.sample.output[0]?.content).not.toBe('')
    expect(first?.sample.usage.completion_tokens).toBeGreaterThan(0)
  })

  it('counts rows that cannot be asked, and fails where none can', async () => {
    const { id } = await create()
    const missing = asked('{{item.gone}}', ['a'])
    const { id: runId } = await client.evals.runs.create(id, { data_source: missing })
    const run = await untilEnded(id, runId)
    expect(run).toMatchObject({
      ...{ status: 'failed', result_counts: { total: 1, errored: 1 } },
      error: { code: 'invalid_variable_error', message: expect.stringContaining('item.gone') },
    })
    const unknown = { ...asked('x', ['a']), model: 'nobody' }
    const { id: other } = await client.evals.runs.create(id, { data_source: unknown })
    expect((await untilEnded(id, other)).error).toMatchObject({
      message: expect.stringContaining('nobody'),
    })
  })
})

describe('what is refused, by name', () => {
  it.each<[string, object, string]>([
    ['stored completions', { data_source_config: { type: 'stored_completions' } }, 'data_source_config.type'],
    ['a grader of no kind', { testing_criteria: [{ type: 'x' }] }, 'testing_criteria[0].type'],
    [
      'no threshold',
      { testing_criteria: [{ ...NEAR, pass_threshold: undefined }] },
      'testing_criteria[0].pass_threshold',
    ],
  ])('an eval of %s', async (_, changes, param) => {
    const wanted = { name: 'x', data_source_config: CONFIG, testing_criteria: [EQUAL], ...changes } as never
    await expect(client.evals.create(wanted)).rejects.toMatchObject({ status: 400, param })
  })

  it.each<[string, object, string]>([
    ['another kind', { type: 'logs' }, 'data_source.type'],
    ['stored rows', { type: 'completions', source: { type: 'stored_completions' } }, 'data_source.source'],
    ['no answers', { type: 'jsonl', source: { type: 'file_content', content: [{ item: {} }] } }, 'data_source.source'],
    ['no rows', { type: 'jsonl', source: { type: 'file_content', content: [] } }, 'data_source.source'],
    ['no model', { ...asked('x', ['a']), model: undefined }, 'data_source.model'],
    [
      'an unknown parameter',
      { ...asked('x', ['a']), sampling_params: { mood: 1 } },
      'data_source.sampling_params.mood',
    ],
    ['a template of the answer', asked('{{sample.output_text}}', ['a']), 'data_source.input_messages'],
  ])('a run of %s', async (_, source, param) => {
    const { id } = await create()
    await expect(client.evals.runs.create(id, { data_source: source as never })).rejects.toMatchObject({
      status: 400,
      param,
    })
  })
})

it('another key sees nothing of it', async () => {
  const { id } = await create()
  const { id: runId } = await client.evals.runs.create(id, { data_source: given(['a', 'a']) })
  await untilEnded(id, runId)
  const [item] = (await client.evals.runs.outputItems.list(runId, { eval_id: id })).data
  const { key } = await service.createKey({ entity: 'others' })
  const other = clientOf(key)
  expect((await other.evals.list()).data).toEqual([])
  const foreign = await create([EQUAL], other)
  for (const asks of [
    () => other.evals.retrieve(id),
    () => other.evals.delete(id),
    () => other.evals.runs.create(id, { data_source: given(['a', 'a']) }),
    () => other.evals.runs.retrieve(runId, { eval_id: id }),
    () => other.evals.runs.retrieve(runId, { eval_id: foreign.id }),
    () => other.evals.runs.cancel(runId, { eval_id: foreign.id }),
    () => other.evals.runs.outputItems.retrieve(item?.id ?? '', { eval_id: foreign.id, run_id: runId }),
  ]) {
    await expect(asks()).rejects.toThrow(OpenAI.NotFoundError)
  }
  const { key: reader } = await service.createKey({ scope: 'read' })
  await expect(clientOf(reader).evals.delete(id)).rejects.toThrow(OpenAI.PermissionDeniedError)
})

it('is canceled, and goes on behind a restart', async () => {
  const { id } = await create([NEAR])
  const many = asked(
    'Say {{item.question}}',
    Array.from({ length: 60 }, (_, i) => `${i}`),
  )
  const canceled = await client.evals.runs.create(id, { data_source: many })
  expect((await client.evals.runs.cancel(canceled.id, { eval_id: id })).status).toBe('canceled')
  const { id: runId } = await client.evals.runs.create(id, { data_source: many })
  await until(async () => {
    const { result_counts: counts } = await client.evals.runs.retrieve(runId, { eval_id: id })
    return counts.passed + counts.failed > 3
  }, 'some items')
  service = await service.restart()
  client = clientOf(service.apiKey)
  const run = await untilEnded(id, runId)
  expect(run.status, JSON.stringify(run.error)).toBe('completed')
  expect(run.result_counts).toMatchObject({ total: 60, errored: 0 })
  expect(run.per_model_usage[0]?.invocation_count).toBe(60)
  expect((await client.evals.runs.retrieve(canceled.id, { eval_id: id })).status).toBe('canceled')
  expect((await client.evals.runs.delete(runId, { eval_id: id })).deleted).toBe(true)
})
