/**
 * Every POST may be sent twice with one Idempotency-Key: one object, the same answer, and a conflict for another request.
 * A route that makes something and is not known here fails.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { patternOf } from '#service/http/handlers.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { ROUTES } from '../../../support/service/with-plugins.js'

let service: TestService
let modelId: string
let jobId: string
beforeAll(async () => {
  service = await createTestService()
  modelId = await service.createModel('m')
  const json = { model_id: modelId, trajectory_groups: [sampleGroup([0.5, 0])] }
  jobId = (await service.json<{ id: string }>('/v1/preview/training-jobs', { json })).body.id
  await service.waitForJob(jobId)
})
afterAll(() => service.dispose())

type Reply = { readonly status: number; readonly body: Record<string, unknown> }

function upload(text: string, headers: Record<string, string>): Promise<Reply> {
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([text]), 'rows.jsonl')
  return service.json<Record<string, unknown>>('/v1/files', { method: 'POST', body: form, headers })
}
const send = (path: string, json: object, headers: Record<string, string>): Promise<Reply> =>
  service.json<Record<string, unknown>>(path, { json, headers })

const evalOf = (n: number) => ({
  name: `n${n}`,
  data_source_config: { type: 'custom' },
  testing_criteria: [
    { type: 'string_check', name: 'c', operation: 'eq', input: '{{sample.output_text}}', reference: 'a' },
  ],
})

/** Route → the request `n`; equal for equal `n`. */
const creates: Readonly<Record<string, (n: number, headers: Record<string, string>) => Promise<Reply>>> = {
  '/v1/preview/models': (n, headers) =>
    send('/v1/preview/models', { project: 'p', name: `n${n}`, base_model: 'trainyard/tiny-random' }, headers),
  '/v1/preview/training-jobs': (n, headers) =>
    send('/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [sampleGroup([n, 0])] }, headers),
  '/v1/preview/sft-training-jobs': async (n, headers) => {
    const row = {
      messages: [
        { role: 'user', content: 'q' },
        { role: 'assistant', content: `a${n}` },
      ],
    }
    const file = await upload(`${JSON.stringify(row)}\n`, { 'idempotency-key': `rows ${n}` })
    return send('/v1/preview/sft-training-jobs', { model_id: modelId, training_data_url: file.body['id'] }, headers)
  },
  '/v1/preview/dpo-training-jobs': (n, headers) => {
    const row = JSON.stringify({ prompt: 'q', chosen: `good ${n}`, rejected: 'bad' })
    const url = `data:application/jsonl;base64,${Buffer.from(row).toString('base64')}`
    return send('/v1/preview/dpo-training-jobs', { model_id: modelId, training_data_url: url }, headers)
  },
  '/v1/preview/models/:model_id/log': (n, headers) =>
    send(`/v1/preview/models/${modelId}/log`, { split: 'val', trajectory_groups: [sampleGroup([n, 1])] }, headers),
  '/v1/preview/models/:model_id/marks': (n, headers) => {
    const [asked, answer] = ['user', 'assistant'].map((role) => ({ role, content: `${role} ${n}` }))
    return send(`/v1/preview/models/${modelId}/marks`, { mark: 'good', messages: [asked], answer }, headers)
  },
  '/v1/preview/loops': async (n, headers) => {
    const row = { messages: [{ role: 'user', content: 'x' }] }
    const file = await upload(`${JSON.stringify(row)}\n`, { 'idempotency-key': 'rows of a loop' })
    const grader = { type: 'string_check', input: '{{sample.output_text}}', reference: 'a', operation: 'eq' }
    const json = { model_id: modelId, prompts_file: file.body['id'], grader, steps: n, held_out_rows: 0, seed: 0 }
    const made = await send('/v1/preview/loops', json, headers)
    if (made.status === 200) await service.json(`/v1/preview/loops/${made.body['id']}/cancel`, { method: 'POST' })
    return made
  },
  '/v1/preview/rollouts': (n, headers) => send('/v1/preview/rollouts', { model: 'm', task: `${n}` }, headers),
  '/v1/preview/webhooks': (n, headers) => send('/v1/preview/webhooks', { url: `https://example.com/${n}` }, headers),
  '/v1/fine_tuning/jobs': async (n, headers) => {
    const messages = ['user', 'assistant'].map((role) => ({ role, content: 'x' }))
    const file = await upload(`${JSON.stringify({ messages })}\n`, { 'idempotency-key': 'rows of fine-tuning' })
    const request = { model: 'trainyard/tiny-random', training_file: file.body['id'], seed: n }
    return send('/v1/fine_tuning/jobs', request, headers)
  },
  '/v1/batches': async (n, headers) => {
    const line = { custom_id: `${n}`, method: 'POST', url: '/v1/completions', body: { prompt: 'x' } }
    const init = { method: 'POST', body: JSON.stringify(line), headers: { 'idempotency-key': `requests ${n}` } }
    const file = await service.json<{ id: string }>('/v1/files?filename=requests&purpose=batch', init)
    const request = { input_file_id: file.body.id, endpoint: '/v1/completions', completion_window: '24h' }
    return send('/v1/batches', request, headers)
  },
  '/v1/evals': (n, headers) => send('/v1/evals', evalOf(n), headers),
  '/v1/evals/:eval_id/runs': async (n, headers) => {
    const made = await send('/v1/evals', evalOf(0), { 'idempotency-key': 'eval of runs' })
    const content = [{ item: { a: n }, sample: 'a' }]
    const source = { type: 'jsonl', source: { type: 'file_content', content } }
    return send(`/v1/evals/${String(made.body['id'])}/runs`, { data_source: source }, headers)
  },
  '/v1/files': (n, headers) => upload(`{"messages":[],"n":${n}}\n`, headers),
}
/** Routes that say the same however often they are called, with or without a key. */
const REPEATABLE: readonly string[] = [
  '/v1/preview/training-jobs/:training_job_id/cancel',
  '/v1/preview/training-jobs/:training_job_id/stop',
  '/v1/preview/training-sessions/:training_run_id/end',
  '/v1/preview/models/:model_id/probes',
  '/v1/preview/models/:model_id/probes/:probe_id/answers',
  '/v1/preview/loops/:loop_id/cancel',
  '/v1/preview/loops/:loop_id/pause',
  '/v1/preview/loops/:loop_id/resume',
  '/v1/preview/rollouts/:rollout_id/finish',
  '/v1/preview/verify',
  '/v1/preview/demo',
  '/v1/preview/gateway-routes',
  '/v1/batches/:batch_id/cancel',
  '/v1/evals/:eval_id',
  '/v1/evals/:eval_id/runs/:eval_run_id',
]
/** Routes with a rule of their own, tested where they are. */
const ELSEWHERE: readonly RegExp[] = [
  /^\/v1\/preview\/(?:keys|base-models)$/,
  /sessions\/exchange$/,
  /fine_tuning\/jobs\/.*/,
  /webhooks\/.*/,
  /files\/.*/,
  /uploads/,
]

describe('Idempotency-Key', () => {
  it('is known for every POST that makes something', () => {
    const posts = ROUTES.filter(({ method, path }) => method === 'POST' && path.startsWith('/v1/'))
    for (const path of posts.filter(({ scope }) => scope !== 'read').map(patternOf)) {
      const isKnown = path in creates || REPEATABLE.includes(path) || ELSEWHERE.some((known) => known.test(path))
      expect(isKnown, path).toBe(true)
    }
  })

  it.each(Object.entries(creates))(
    '%s: one object, the same answer, a conflict for another request',
    async (path, create) => {
      const headers = { 'idempotency-key': `key of ${path}` }
      const first = await create(1, headers)
      expect(first.status, JSON.stringify(first.body)).toBe(200)
      const all = await Promise.all(Array.from({ length: 8 }, () => create(1, headers)))
      for (const { status, body } of all) {
        expect(status, JSON.stringify(body)).toBe(200)
        for (const name of ['id', 'step', 'metrics', 'groups']) expect(body[name], name).toEqual(first.body[name])
      }
      const other = await create(2, headers)
      expect([other.status, other.body['error']]).toEqual([
        409,
        expect.objectContaining({ code: 'idempotency_key_reused' }),
      ])
    },
  )

  it('keeps a log sent again from counting twice, also when the client only says that it retries', async () => {
    const model = await service.createModel('logged')
    const path = `/v1/preview/models/${model}/log`
    const logs = async () => (await service.json<{ data: unknown[] }>(path)).body.data.length
    const json = { split: 'val', trajectory_groups: [sampleGroup([1, 0])] }
    await send(path, json, { 'idempotency-key': 'a' })
    await send(path, json, { 'idempotency-key': 'a' })
    expect(await logs()).toBe(1)
    await send(path, json, { 'x-stainless-retry-count': '1' })
    expect(await logs()).toBe(1)
    await send(path, json, {})
    expect(await logs()).toBe(2)
  })

  it('a repeated cancel answers 200 with the record', async () => {
    const json = {
      model_id: modelId,
      trajectory_groups: [sampleGroup([0.25, 0])],
      // ends by the cancel alone
      experimental_config: { stand_in: { steps: 100_000, delay_ms: 20 } },
    }
    const { body } = await send('/v1/preview/training-jobs', json, { 'idempotency-key': 'to cancel' })
    const path = `/v1/preview/training-jobs/${String(body['id'])}/cancel`
    for (let i = 0; i < 3; i += 1) {
      expect(await send(path, {}, {})).toMatchObject({ status: 200, body: { id: body['id'] } })
    }
    await service.waitForJob(String(body['id']))
    expect(await send(path, {}, {})).toMatchObject({ status: 200, body: { status: 'cancelled' } })
  })

  it('of one project is nothing to another project', async () => {
    const keyOf = async (project: string) =>
      (await service.json<{ key: string }>('/v1/preview/keys', { json: { project, scope: 'write' } })).body.key
    const create = async (key: string, project: string) =>
      send(
        '/v1/preview/models',
        { project, name: 'same', base_model: 'trainyard/tiny-random' },
        { authorization: `Bearer ${key}`, 'idempotency-key': 'same' },
      )
    const [left, right] = [await keyOf('left'), await keyOf('right')]
    const first = await create(left, 'left')
    const second = await create(right, 'right')
    expect([first.status, second.status]).toEqual([200, 200])
    expect([first.body['project'], second.body['project']]).toEqual(['left', 'right'])
    expect((await create(left, 'left')).body['id']).toBe(first.body['id'])
    expect((await create(right, 'right')).body['id']).toBe(second.body['id'])
  })

  it('longer than 255 characters is refused', async () => {
    const { status, body } = (await creates['/v1/preview/models']?.(3, { 'idempotency-key': 'x'.repeat(256) })) ?? {}
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('invalid_idempotency_key')])
  })
})
