/**
 * Marks on answers: of trajectories that a job trained on, that were logged, and of chats; what rows come of them, whose they are, what is
 * refused, and what becomes of them when that goes which they are about. Training on the files: `marks-train.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { FileObject } from '#contract/wire/files.js'
import type { List } from '#contract/wire/list.js'
import type { FileFromMarks, Mark } from '#contract/wire/training/marks.js'
import { markTables } from '#plugins/marks/storage/tables.js'
import { createTestService, type TestRequest, type TestService } from '../../../support/service/create-test-service.js'

interface Refusal {
  readonly error: { readonly code: string; readonly message: string; readonly hint: string | null }
}

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const choice = (content: string, extra: object = {}) => ({
  finish_reason: 'stop',
  index: 0,
  message: { role: 'assistant', content, refusal: null, ...extra },
  token_ids: [1, 2],
  prompt_token_ids: [4],
  logprobs: { content: [1, 2].map((id) => ({ token: `token_id:${id}`, logprob: -1, top_logprobs: [] })) },
})
const SYSTEM = { role: 'system', content: 'You ask back.' }
const user = (content: string) => ({ role: 'user', content })
const said = (content: string) => ({ role: 'assistant', content })

const CALL = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }
const TOOLS = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }]
/** The first group: one question, four answers, two of them equal. The second: turns with a tool, and a given answer before them. */
const GROUPS = [
  {
    trajectories: ['What happened?', 'Oh.', 'Tell me more.', 'Oh.'].map((text, i) => ({
      reward: i % 2,
      final_policy_version: 0,
      messages_and_choices: [SYSTEM, user('I am sad.'), choice(text)],
    })),
  },
  {
    trajectories: [0, 1].map((reward) => ({
      reward,
      tools: TOOLS,
      messages_and_choices: [
        user('Hello'),
        said('Hi, given.'),
        user('Look.'),
        choice('', { tool_calls: [CALL] }),
        { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
        choice(reward === 1 ? 'A cat.' : 'Nothing.'),
        user('Thanks'),
      ],
    })),
  },
]

interface Trained {
  readonly modelId: string
  readonly jobId: string
}

async function train(name: string): Promise<Trained> {
  const modelId = await service.createModel(name)
  const json = {
    model_id: modelId,
    trajectory_groups: GROUPS,
    experimental_config: { stand_in: { steps: 1, tokens: 4 } },
  }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  await service.waitForJob(body.id)
  return { modelId, jobId: body.id }
}

const put = <T = Mark>(jobId: string, place: string, json: object, init: TestRequest = {}) =>
  service.json<T>(`/v1/preview/training-jobs/${jobId}/groups/${place.replace('/', '/trajectories/')}/mark`, {
    method: 'PUT',
    json,
    ...init,
  })
const listOf = async (modelId: string, query = ''): Promise<readonly Mark[]> =>
  (await service.json<List<Mark>>(`/v1/preview/models/${modelId}/marks?limit=100${query}`)).body.data
const toFile = <T = FileFromMarks>(modelId: string, form: string) =>
  service.json<T>('/v1/files/from-marks', { json: { model_id: modelId, form } })
async function rowsOf(modelId: string, form: string): Promise<readonly unknown[]> {
  const { status, body } = await toFile(modelId, form)
  expect(status, JSON.stringify(body)).toBe(200)
  expect(body).toMatchObject({ status: 'processed', status_details: null, purpose: 'fine-tune' })
  const text = await (await service.fetch(`/v1/files/${body.id}/content`)).text()
  const rows = text.trimEnd().split('\n')
  expect(body.rows).toBe(rows.length)
  return rows.map((row) => JSON.parse(row) as unknown)
}

describe('marks on trajectories of a job', () => {
  it('copies the conversation; a second mark replaces the first; the rows learn what was sampled and marked', async () => {
    const { modelId, jobId } = await train('marked')
    const first = await put(jobId, '0/0', { mark: 'bad' })
    expect([first.status, first.body]).toEqual([
      200,
      expect.objectContaining({
        object: 'mark',
        model_id: modelId,
        mark: 'bad',
        source: 'training_job',
        training_job_id: jobId,
        log_id: null,
        group: 0,
        trajectory: 0,
        pair_with: null,
        step: 0,
        prompt: [SYSTEM, user('I am sad.')],
        answer: [said('What happened?')],
        edited: null,
        other: null,
        tools: null,
        note: null,
      }),
    ])
    const second = await put(jobId, '0/0', { mark: 'good', pair_with: 1, note: 'asks' })
    expect(second.body).toMatchObject({
      id: first.body.id,
      mark: 'good',
      pair_with: 1,
      other: [said('Oh.')],
      note: 'asks',
    })
    await put(jobId, '0/3', { mark: 'bad', edited: 'Why is that?' })
    await put(jobId, '1/1', { mark: 'good' })
    expect((await listOf(modelId)).map(({ group, trajectory }) => `${group}/${trajectory}`)).toEqual([
      '1/1',
      '0/3',
      '0/0',
    ])
    expect(await listOf(modelId, '&mark=bad')).toHaveLength(1)
    expect(await listOf(modelId, `&training_job_id=${jobId}&group=1`)).toHaveLength(1)
    const third = await listOf(modelId, `&training_job_id=${jobId}&group=0&trajectory=3`)
    expect(third.map(({ group, trajectory }) => [group, trajectory])).toEqual([[0, 3]])
    expect(await listOf(modelId, `&log_id=${jobId}`)).toHaveLength(0)

    const call = { role: 'assistant', content: '', tool_calls: [CALL] }
    expect(await rowsOf(modelId, 'sft')).toEqual([
      { messages: [SYSTEM, user('I am sad.'), said('What happened?')] },
      { messages: [SYSTEM, user('I am sad.'), said('Why is that?')] },
      {
        messages: [
          user('Hello'),
          { ...said('Hi, given.'), weight: 0 },
          user('Look.'),
          call,
          { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
          said('A cat.'),
        ],
        tools: TOOLS,
      },
    ])
    expect(await rowsOf(modelId, 'dpo')).toEqual([
      { prompt: [SYSTEM, user('I am sad.')], chosen: [said('What happened?')], rejected: [said('Oh.')] },
      { prompt: [SYSTEM, user('I am sad.')], chosen: [said('Why is that?')], rejected: [said('Oh.')] },
    ])
    const { body } = await toFile(modelId, 'dpo')
    expect(body).toMatchObject({ rows: 2, marks: 3, left_out: [{ reason: 'without_partner', count: 1 }] })
    expect(body.filename).toBe('marks-marked-dpo.jsonl')
  })

  it('pairs good with bad ones of the same prompt, the first with the first; equal answers prefer nothing', async () => {
    const { modelId, jobId } = await train('paired')
    await put(jobId, '0/1', { mark: 'bad' })
    await put(jobId, '0/3', { mark: 'good' })
    await put(jobId, '0/0', { mark: 'good' })
    await put(jobId, '0/2', { mark: 'bad' })
    await put(jobId, '1/0', { mark: 'bad' })
    expect(await rowsOf(modelId, 'dpo')).toEqual([
      { prompt: [SYSTEM, user('I am sad.')], chosen: [said('What happened?')], rejected: [said('Tell me more.')] },
    ])
    expect((await toFile(modelId, 'dpo')).body.left_out).toEqual([
      { reason: 'without_partner', count: 1 },
      { reason: 'equal_answers', count: 2 },
    ])
    expect((await toFile(modelId, 'sft')).body.left_out).toEqual([{ reason: 'bad_without_edit', count: 3 }])
  })

  it('outlives what the job trained on; goes with its model, and the files of it stay', async () => {
    const { modelId, jobId } = await train('outlived')
    await put(jobId, '0/0', { mark: 'good' })
    const { body: file } = await toFile(modelId, 'sft')
    expect((await service.fetch(`/v1/preview/training-jobs/${jobId}/data`, { method: 'DELETE' })).status).toBe(200)
    expect(await listOf(modelId)).toMatchObject([{ mark: 'good', answer: [said('What happened?')] }])
    const gone = await put<Refusal>(jobId, '0/1', { mark: 'good' })
    expect([gone.status, gone.body.error.code]).toEqual([404, 'training_data_not_kept'])
    expect((await service.fetch(`/v1/preview/models/${modelId}`, { method: 'DELETE' })).status).toBe(200)
    expect((await service.fetch(`/v1/preview/models/${modelId}/marks`)).status).toBe(404)
    const rows = await service.openRows()
    const left = await markTables(rows.db).selectFrom('marks').select('id').where('model_id', '=', modelId).execute()
    await rows.close()
    expect(left).toEqual([])
    expect((await service.fetch(`/v1/files/${file.id}/content`)).status).toBe(200)
  })

  it('refuses by name what is no mark', async () => {
    const { modelId, jobId } = await train('refused')
    const refusals: readonly (readonly [string, object, number, string])[] = [
      ['0/0', { mark: 'good', edited: 'x' }, 422, 'needless_edit'],
      ['0/0', { mark: 'good', pair_with: 0 }, 422, 'invalid_value'],
      ['0/1', { mark: 'good', pair_with: 3 }, 422, 'equal_answers'],
      ['0/0', { mark: 'good', pair_with: 9 }, 404, 'rollout_not_found'],
      ['7/0', { mark: 'good' }, 404, 'rollout_not_found'],
    ]
    for (const [place, json, status, code] of refusals) {
      const { status: got, body } = await put<Refusal>(jobId, place, json)
      expect([place, got, body.error?.code]).toEqual([place, status, code])
    }
    expect((await put(jobId, '0/0', { mark: 'fine' })).status).toBe(422)
    const none = await toFile<Refusal>(modelId, 'dpo')
    expect([none.status, none.body.error.code, none.body.error.hint]).toEqual([
      400,
      'no_marks',
      'edit a bad answer, compare two, or mark a good and a bad answer to one prompt',
    ])
    expect(await listOf(modelId)).toEqual([])
    expect(
      (await service.json<{ data: FileObject[] }>('/v1/files')).body.data.map(({ filename }) => filename),
    ).not.toContain('marks-refused-dpo.jsonl')
  })
})

describe('marks elsewhere', () => {
  it('of a logged trajectory: the step is that of the log', async () => {
    const modelId = await service.createModel('logged')
    const path = `/v1/preview/models/${modelId}/log`
    await service.json(path, { json: { split: 'val', trajectory_groups: GROUPS } })
    const [log] = (await service.json<List<{ id: string }>>(path)).body.data
    const at = `${path}/${log?.id}/groups/1/trajectories/0/mark`
    const { status, body } = await service.json<Mark>(at, { method: 'PUT', json: { mark: 'bad', pair_with: 1 } })
    expect(status, JSON.stringify(body)).toBe(200)
    expect(body).toMatchObject({ source: 'log', log_id: log?.id, training_job_id: null, step: 0, tools: TOOLS })
    expect(await rowsOf(modelId, 'dpo')).toMatchObject([
      { chosen: [{}, {}, said('A cat.')], rejected: [{}, {}, said('Nothing.')], tools: TOOLS },
    ])
    const missing = await service.json<Refusal>(`${path}/nothing/groups/1/trajectories/0/mark`, {
      method: 'PUT',
      json: { mark: 'bad' },
    })
    expect([missing.status, missing.body.error.code]).toEqual([404, 'trajectory_log_not_found'])
  })

  it('of an answer of a chat: earlier answers are context; one key makes one mark', async () => {
    const modelId = await service.createModel('chatted')
    const path = `/v1/preview/models/${modelId}/marks`
    const json = {
      mark: 'bad',
      messages: [user('Hi'), said('Hello.'), user('I am sad.')],
      answer: said('Oh.'),
      edited: 'Why?',
      other: said('What happened?'),
      step: 3,
    }
    const headers = { 'idempotency-key': 'one' }
    const [one, two] = [
      await service.json<Mark>(path, { json, headers }),
      await service.json<Mark>(path, { json, headers }),
    ]
    expect(one.status, JSON.stringify(one.body)).toBe(200)
    expect(two.body.id).toBe(one.body.id)
    expect(one.body).toMatchObject({ source: 'chat', step: 3, group: null, training_job_id: null })
    await service.json<Mark>(path, { json: { mark: 'good', messages: [user('Hi')], answer: said('Hello.') } })
    expect(await rowsOf(modelId, 'sft')).toEqual([
      { messages: [user('Hi'), { ...said('Hello.'), weight: 0 }, user('I am sad.'), said('Why?')] },
      { messages: [user('Hi'), said('Hello.')] },
    ])
    const prompt = json.messages
    expect(await rowsOf(modelId, 'dpo')).toEqual([
      { prompt, chosen: [said('Why?')], rejected: [said('Oh.')] },
      { prompt, chosen: [said('What happened?')], rejected: [said('Oh.')] },
    ])
    const refusals: readonly (readonly [object, number, string])[] = [
      [{ answer: user('Oh.') }, 422, 'invalid_value'],
      [{ other: said('Oh.') }, 422, 'equal_answers'],
      [{ messages: [user('x'.repeat(300_000))] }, 400, 'mark_too_large'],
      [{ messages: [{ role: 'user', content: { a: 1 } }] }, 400, 'mark_not_trainable'],
    ]
    for (const [change, code, name] of refusals) {
      const { status, body } = await service.json<Refusal>(path, { json: { ...json, ...change } })
      expect([status, body.error?.code]).toEqual([code, name])
    }
    const id = one.body.id
    expect((await service.json(`${path}/${id}`, { method: 'DELETE' })).body).toEqual({
      id,
      object: 'mark',
      deleted: true,
    })
    expect((await service.fetch(`${path}/${id}`, { method: 'DELETE' })).status).toBe(404)
    expect(await listOf(modelId)).toHaveLength(1)
  })

  it('that are long come in shorter pages, none of them twice', async () => {
    const modelId = await service.createModel('long')
    const path = `/v1/preview/models/${modelId}/marks`
    for (let n = 0; n < 11; n += 1) {
      const messages = [user(`${n} ${'x'.repeat(250_000)}`)]
      expect((await service.fetch(path, { json: { mark: 'good', messages, answer: said('Oh.') } })).status).toBe(200)
    }
    const first = (await service.json<List<Mark>>(`${path}?limit=100`)).body
    expect([first.data.length, first.has_more]).toEqual([9, true])
    const second = (await service.json<List<Mark>>(`${path}?limit=100&after=${first.last_id}`)).body
    expect([second.data.length, second.has_more]).toEqual([2, false])
    expect(new Set([...first.data, ...second.data].map(({ id }) => id)).size).toBe(11)
  })

  it('of another project or entity: nothing is found', async () => {
    const { modelId, jobId } = await train('foreign')
    const { body: mark } = await put(jobId, '0/0', { mark: 'good' })
    for (const wanted of [{ project: 'elsewhere' }, { entity: 'others' }]) {
      const { key } = await service.createKey(wanted)
      const headers = { authorization: `Bearer ${key}` }
      const path = `/v1/preview/models/${modelId}/marks`
      const statuses = [
        await service.fetch(path, { headers }),
        await service.fetch(`${path}/${mark.id}`, { method: 'DELETE', headers }),
        await service.fetch(path, { headers, json: { mark: 'good', messages: [user('a')], answer: said('b') } }),
        await service.fetch('/v1/files/from-marks', { headers, json: { model_id: modelId, form: 'sft' } }),
        await service.fetch(`/v1/preview/training-jobs/${jobId}/groups/0/trajectories/1/mark`, {
          method: 'PUT',
          headers,
          json: { mark: 'good' },
        }),
      ].map(({ status }) => status)
      expect(statuses).toEqual([404, 404, 404, 404, 404])
    }
    expect(await listOf(modelId)).toHaveLength(1)
    const own = await service.createModel('other of the same project')
    const crossed = await service.fetch(`/v1/preview/models/${own}/marks/${mark.id}`, { method: 'DELETE' })
    expect(crossed.status).toBe(404)
  })
})
