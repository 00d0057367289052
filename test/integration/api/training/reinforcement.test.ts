/**
 * Reinforcement jobs of OpenAI's fine-tuning API as requests see them: what is refused and by which name, what a job shows,
 * pause, resume and cancel, and lists of jobs of every method.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const JOBS = '/v1/fine_tuning/jobs'
const GRADER = {
  type: 'string_check',
  name: 'right',
  operation: 'eq',
  input: '{{sample.output_text}}',
  reference: '{{item.answer}}',
}

interface Job {
  readonly id: string
  readonly status: string
  readonly method: { readonly type: string; readonly reinforcement?: JsonObject }
  readonly fine_tuned_model: string | null
}
interface Refusal {
  readonly error: { readonly code: string; readonly param: string | null; readonly message: string }
}
interface Page<T> {
  readonly data: readonly T[]
  readonly has_more: boolean
}

let service: TestService
let rows: string
let examples: string
beforeAll(async () => {
  // no loop begins: what becomes of one that does is seen by the SDKs
  service = await createTestService({ tuning: { plugins: { loops: { pollMs: 2_000_000_000 } } } })
  const row = (i: number): string => {
    const answer = i === 3 ? {} : { answer: `${i}` }
    return JSON.stringify({ messages: [{ role: 'user', content: `Number ${i}?` }], ...answer })
  }
  rows = await upload(Array.from({ length: 20 }, (_, i) => row(i)).join('\n'))
  const turns = ['user', 'assistant'].map((role) => ({ role, content: role }))
  examples = await upload(JSON.stringify({ messages: turns }))
})
afterAll(() => service.dispose())

async function upload(text: string): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([text]), 'rows.jsonl')
  return (await service.json<{ id: string }>('/v1/files', { method: 'POST', body: form })).body.id
}

const requestOf = (reinforcement: object | null, more: object = {}) => ({
  model: 'trainyard/tiny-random',
  training_file: rows,
  method: { type: 'reinforcement', ...(reinforcement === null ? {} : { reinforcement }) },
  ...more,
})
const create = (reinforcement: object, more: object = {}, headers: Record<string, string> = {}) =>
  service.json<Job & Refusal>(JOBS, { json: requestOf(reinforcement, more), headers })
async function created(reinforcement: object, more: object = {}): Promise<Job> {
  const { status, body } = await create(reinforcement, more)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const post = (id: string, act: string) => service.json<Job & Refusal>(`${JOBS}/${id}/${act}`, { method: 'POST' })
describe('refused', () => {
  const M = 'method.reinforcement'
  const sized = (hyperparameters: object) => ({ grader: GRADER, hyperparameters })
  it.each<[string, object | null, object, string | null, string | RegExp]>([
    ['without its words', null, {}, M, 'missing_required_parameter'],
    ['without a grader', {}, {}, `${M}.grader`, /./],
    ['a grader of no kind', { grader: { ...GRADER, type: 'magic' } }, {}, `${M}.grader.type`, 'invalid_grader'],
    ['a python grader without source', { grader: { type: 'python' } }, {}, `${M}.grader.source`, 'invalid_grader'],
    [
      'a model that grades nowhere',
      { grader: { type: 'score_model', model: 'gpt-none', input: [{ role: 'user', content: 'x' }] } },
      {},
      `${M}.grader.model`,
      'grader_model_not_found',
    ],
    [
      'a host that is not allowed',
      {
        grader: {
          type: 'multi',
          graders: { far: { type: 'endpoint', name: 'far', url: 'https://10.0.0.1/x' } },
          calculate_output: 'far',
        },
      },
      {},
      `${M}.grader.graders.far.url`,
      'grader_refused',
    ],
    ['a path of no row', { grader: { ...GRADER, reference: '{{item.city}}' } }, {}, `${M}.grader`, 'invalid_grader'],
    [
      'a template that names nothing',
      { grader: { ...GRADER, input: '{{x}}' } },
      {},
      `${M}.grader.input`,
      'invalid_grader',
    ],
    ['too many prompts', sized({ batch_size: 257 }), {}, `${M}.hyperparameters.batch_size`, /./],
    ['too much compute', sized({ compute_multiplier: 11 }), {}, `${M}.hyperparameters.compute_multiplier`, /./],
    ['too many passes', sized({ n_epochs: 51 }), {}, `${M}.hyperparameters.n_epochs`, /./],
    ['an unknown effort', sized({ reasoning_effort: 'huge' }), {}, `${M}.hyperparameters.reasoning_effort`, /./],
    [
      "Azure's tools at no address",
      { grader: GRADER, tools: [{ name: 'a' }] },
      {},
      `${M}.tools[0].server_url`,
      'invalid_value',
    ],
    ['steps without tools', { grader: GRADER, max_episode_steps: 3 }, {}, `${M}.max_episode_steps`, 'invalid_value'],
    [
      'an unknown form',
      { grader: GRADER, response_format: { type: 'xml' } },
      {},
      `${M}.response_format`,
      'invalid_value',
    ],
    [
      'a form without schema',
      { grader: GRADER, response_format: { type: 'json_schema' } },
      {},
      `${M}.response_format`,
      'invalid_value',
    ],
    [
      'words of another method',
      { grader: GRADER },
      { method: { type: 'reinforcement', dpo: {} } },
      'method.dpo',
      'invalid_value',
    ],
    [
      'numbers beside the method',
      { grader: GRADER },
      { hyperparameters: { n_epochs: 1 } },
      'hyperparameters',
      'invalid_value',
    ],
    ['an unknown file', { grader: GRADER }, { training_file: 'file-none' }, 'training_file', 'file_not_found'],
    [
      'an unknown file to be measured on',
      { grader: GRADER },
      { validation_file: 'file-none' },
      'validation_file',
      'file_not_found',
    ],
  ])('%s', async (_, reinforcement, more, param, code) => {
    const { status, body } = await service.json<Refusal>(JOBS, { json: requestOf(reinforcement, more) })
    expect([status, body.error.param]).toEqual([400, param])
    if (typeof code === 'string') expect(body.error.code).toBe(code)
  })

  it('rows that have the answer already, with their line', async () => {
    const { status, body } = await create({ grader: GRADER }, { training_file: examples })
    expect([status, body.error]).toMatchObject([400, { param: 'training_file', code: 'wrong_last_role' }])
    expect(body.error.message).toContain('Line 1')
  })

  it('one row, of which none can be held out; with a file to be measured on it is enough', async () => {
    const one = await upload(JSON.stringify({ messages: [{ role: 'user', content: 'a' }], answer: 'a' }))
    const { status, body } = await create({ grader: GRADER }, { training_file: one })
    expect([status, body.error]).toMatchObject([400, { param: 'training_file', code: 'too_few_rows' }])
    const job = await created({ grader: GRADER }, { training_file: one, validation_file: one })
    expect((await post(job.id, 'cancel')).body.status).toBe('cancelled')
  })

  it('pause and resume of other jobs', async () => {
    const json = { model: 'trainyard/tiny-random', training_file: examples }
    const { body } = await service.json<Job>(JOBS, { json })
    for (const act of ['pause', 'resume']) {
      const refused = await post(body.id, act)
      expect([refused.status, refused.body.error.code]).toEqual([400, 'unsupported_method'])
    }
    expect((await post('ftjob-none', 'pause')).status).toBe(404)
  })
})

describe('a job', () => {
  it('shows what was asked for and chosen; events begin with what was found', async () => {
    const format = { type: 'json_object' }
    const job = await created(
      {
        grader: GRADER,
        response_format: format,
        hyperparameters: { batch_size: 4, n_epochs: 50, reasoning_effort: 'low' },
        limits: { max_grader_tokens: 10 },
      },
      { seed: 7, suffix: 'numbers', metadata: { team: 'a' } },
    )
    expect(job).toMatchObject({
      ...{ object: 'fine_tuning.job', seed: 7, user_provided_suffix: 'numbers', metadata: { team: 'a' } },
      ...{ fine_tuned_model: null, result_files: [], training_file: rows, validation_file: null, trained_tokens: null },
      method: {
        type: 'reinforcement',
        reinforcement: {
          ...{ grader: GRADER, response_format: format, limits: { max_grader_tokens: 10 } },
          hyperparameters: {
            ...{ batch_size: 4, n_epochs: 50, compute_multiplier: 1, learning_rate_multiplier: 1 },
            ...{ eval_interval: 20, eval_samples: 1, reasoning_effort: 'low' },
          },
        },
      },
    })
    const first: { message: string; level: string; id: string }[] = []
    for (let after = ''; ; ) {
      const path = `${JOBS}/${job.id}/events?limit=2${after}`
      const { body } = await service.json<Page<{ id: string; message: string; level: string }>>(path)
      first.unshift(...[...body.data].reverse())
      if (!body.has_more) break
      after = `&after=${body.data.at(-1)?.id}`
    }
    expect(new Set(first.map(({ id }) => id)).size).toBe(first.length)
    expect(first.slice(0, 2).map(({ level, message }) => [level, message])).toEqual([
      ['warn', expect.stringContaining('{{ item.answer }} is not in 1 of the 20 rows of training_file')],
      ['info', expect.stringContaining('4 of the 20 rows are held out')],
    ])
    expect((await service.fetch(`${JOBS}/${job.id}/events?after=ftevent-none`)).status).toBe(400)
    expect((await service.json<Page<object>>(`${JOBS}/${job.id}/checkpoints`)).body.data).toEqual([])
    expect((await post(job.id, 'cancel')).body.status).toBe('cancelled')
  })

  it('pauses, goes on, and is cancelled once; nobody else sees it', async () => {
    const job = await created({ grader: GRADER, hyperparameters: { n_epochs: 50, batch_size: 1 } })
    expect((await post(job.id, 'pause')).body.status).toBe('paused')
    const { key } = await service.createKey({ entity: 'others' })
    const headers = { authorization: `Bearer ${key}` }
    for (const path of ['', '/events', '/checkpoints']) {
      expect((await service.fetch(`${JOBS}/${job.id}${path}`, { headers })).status).toBe(404)
    }
    expect((await service.fetch(`${JOBS}/${job.id}/resume`, { method: 'POST', headers })).status).toBe(404)
    expect((await post(job.id, 'resume')).body.status).toBe('queued')
    expect((await post(job.id, 'cancel')).body.status).toBe('cancelled')
    for (const act of ['cancel', 'pause', 'resume']) {
      const late = await post(job.id, act)
      expect([act, late.status, late.body.error.code]).toEqual([act, 400, 'job_already_finished'])
    }
  })

  it('is one for a request that is repeated', async () => {
    const headers = { 'idempotency-key': 'once' }
    const both = await Promise.all([1, 2].map(() => create({ grader: GRADER }, { suffix: 'once' }, headers)))
    const again = await create({ grader: GRADER }, { suffix: 'once' }, headers)
    expect(new Set([...both, again].map(({ body }) => body.id)).size).toBe(1)
    const models = await service.json<Page<{ name: string }>>('/v1/preview/models?limit=100')
    expect(models.body.data.filter(({ name }) => name.startsWith('once-'))).toHaveLength(1)
    expect((await create({ grader: GRADER }, { suffix: 'other' }, headers)).status).toBe(409)
    await post(again.body.id, 'cancel')
  })

  it('trains a model that is there already on, and is listed among jobs of other methods, newest first', async () => {
    await service.createModel('mine')
    const json = { model: 'trainyard/tiny-random', training_file: examples, metadata: { list: 'a' } }
    const made: string[] = []
    for (let i = 0; i < 2; i += 1) {
      made.unshift((await service.json<Job>(JOBS, { json })).body.id)
      const job = await created({ grader: GRADER }, { model: 'mine', metadata: { list: 'a' }, seed: i })
      made.unshift(job.id)
      await post(job.id, 'cancel')
    }
    for (const [limit, query] of [
      [1, ''],
      [3, ''],
      [1, '&metadata[list]=a'],
      [100, '&metadata[list]=a'],
    ] as const) {
      const ids: string[] = []
      for (let after = ''; ids.length < made.length; ) {
        const { body } = await service.json<Page<Job>>(`${JOBS}?limit=${limit}${query}${after}`)
        ids.push(...body.data.map(({ id }) => id))
        after = `&after=${body.data.at(-1)?.id}`
      }
      expect(ids.slice(0, made.length)).toEqual(made)
    }
  })
})
