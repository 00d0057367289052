/**
 * Tenancy by walking over every route of the application: a key of another entity, or of another project, reaches nothing by
 * id; a key reaches only what its scope allows. A route that is not known here fails, so that none is forgotten.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CreatedKey } from '#contract/wire/access/keys.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { ROUTES } from '../../../support/service/with-plugins.js'
import { openTinker } from '../../../support/tinker/tinker-client.js'
import { until } from '../../../support/until.js'

let service: TestService
/** Name of a route's parameter → the id of a thing of the first entity. */
let ids: Record<string, string>
let routes: readonly { readonly method: string; readonly path: string }[]

beforeAll(async () => {
  service = await createTestService({ audit: 'database' })
  const modelId = await service.createModel('secret')
  const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: modelId, trajectory_groups: [sampleGroup()] },
  })
  await service.waitForJob(job.body.id)
  await service.json(`/v1/preview/models/${modelId}/log`, {
    json: { split: 'val', trajectory_groups: [sampleGroup()] },
  })
  const logs = await service.json<{ data: { id: string }[] }>(`/v1/preview/models/${modelId}/log`)
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob(['{"messages":[]}\n']), 'secret.jsonl')
  const file = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }
  const row = {
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ],
  }
  const rows = await service.json<{ id: string }>('/v1/files?filename=secret-rows', {
    method: 'POST',
    body: JSON.stringify(row),
  })
  const tuning = await service.json<{ id: string }>('/v1/fine_tuning/jobs', {
    json: { model: 'trainyard/tiny-random', training_file: rows.body.id, suffix: 'secret' },
  })
  const create = `mutation { upsertBucket(input: {modelName: "tests", name: "secret"}) { bucket { id } } }`
  const run = await service.json<{ data: { upsertBucket: { bucket: { id: string } } } }>('/graphql', {
    json: { query: create },
  })
  const hook = await service.json<{ id: string }>('/v1/preview/webhooks', {
    json: { url: 'https://example.com/secret' },
  })
  const mark = await service.json<{ id: string }>(`/v1/preview/models/${modelId}/marks`, {
    json: { mark: 'good', messages: [row.messages[0]], answer: row.messages[1] },
  })
  const keys = await service.json<{ data: { id: string }[] }>('/v1/preview/keys')
  const probe = await service.json<{ id: string }>(`/v1/preview/models/${modelId}/probes`, {
    json: { messages: [{ role: 'user', content: 'secret' }] },
  })
  const session = await service.json<{ id: string }>('/v1/preview/sessions', { json: { name: 'secret' } })
  const response = await service.json<{ id: string }>('/v1/responses', { json: { input: 'hi', max_output_tokens: 16 } })
  const upload = await service.json<{ id: string }>('/v1/uploads', {
    json: { bytes: 1, filename: 'secret', mime_type: 'text/plain', purpose: 'batch' },
  })
  const training = await (await openTinker(service)).createRun()
  const grader = { type: 'string_check', input: '{{sample.output_text}}', reference: 'secret', operation: 'eq' }
  const loop = await service.json<{ id: string }>('/v1/preview/loops', {
    json: { model_id: modelId, prompts_file: rows.body.id, grader, steps: 1 },
  })
  // nothing of it is to run
  await service.json(`/v1/preview/loops/${loop.body.id}/cancel`, { method: 'POST' })
  const requests = await service.json<{ id: string }>('/v1/files?filename=secret-requests&purpose=batch', {
    method: 'POST',
    body: JSON.stringify({ custom_id: 'secret', method: 'POST', url: '/v1/completions', body: { prompt: 'secret' } }),
  })
  const batch = await service.json<{ id: string }>('/v1/batches', {
    json: { input_file_id: requests.body.id, endpoint: '/v1/completions', completion_window: '24h' },
  })
  const rollout = await service.json<{ id: string }>('/v1/preview/rollouts', {
    json: { model: 'local/tests/secret', run: 'secret' },
  })
  const route = await service.json<{ id: string }>('/v1/preview/gateway-routes', {
    json: { name: 'secret', upstream: 'https://example.com' },
  })
  const criterion = {
    ...{ type: 'string_check', name: 'secret', operation: 'eq' },
    ...{ input: '{{sample.output_text}}', reference: '{{item.part}}' },
  }
  const measured = await service.json<{ id: string }>('/v1/evals', {
    json: { name: 'secret', data_source_config: { type: 'custom' }, testing_criteria: [criterion] },
  })
  const content = [{ item: { part: 'secret' }, sample: 'secret' }]
  const evalRun = await service.json<{ id: string }>(`/v1/evals/${measured.body.id}/runs`, {
    json: { data_source: { type: 'jsonl', source: { type: 'file_content', content } } },
  })
  const itemsPath = `/v1/evals/${measured.body.id}/runs/${evalRun.body.id}/output_items`
  const item = await until(
    async () => (await service.json<{ data: { id: string }[] }>(itemsPath)).body.data[0] ?? null,
    'a measured answer',
  )
  ids = {
    rollout_id: rollout.body.id,
    gateway_route: route.body.id,
    eval_id: measured.body.id,
    eval_run_id: evalRun.body.id,
    output_item_id: item.id,
    training_run_id: training.id,
    loop_id: loop.body.id,
    response_id: response.body.id,
    model_id: modelId,
    training_job_id: job.body.id,
    group: '0',
    trajectory: '0',
    fine_tuning_job_id: tuning.body.id,
    step: '1',
    name: 'adapter_config.json',
    log_id: logs.body.data[0]?.id ?? '',
    mark_id: mark.body.id,
    file_id: file.id,
    upload_id: upload.body.id,
    batch_id: batch.body.id,
    webhook_id: hook.body.id,
    delivery_id: 'any',
    probe_id: probe.body.id,
    run_id: run.body.data.upsertBucket.bucket.id,
    key_id: keys.body.data[0]?.id ?? '',
    session_id: session.body.id,
    // `GET /v1/models/:id`
    id: 'local/tests/secret',
  }
  const seen = service.app.routes.filter((route) => route.method !== 'ALL' && route.path.startsWith('/v1/'))
  routes = [...new Map(seen.map((route) => [`${route.method} ${route.path}`, route])).values()]
})
afterAll(() => service.dispose())

const parametersOf = (path: string) => [...path.matchAll(/:(\w+)/g)].map(([, name]) => name ?? '')
/** What a route cannot do without in its query. */
const QUERIES: Readonly<Record<string, string>> = {
  '/v1/preview/models/:model_id/log/compare': '?split=val&a=0&b=1',
  '/v1/preview/rollout-groups': '?run=secret',
}
const fill = (path: string) =>
  path.replaceAll(/:(\w+)(\{[^}]*\})?/g, (_, name: string) => ids[name] ?? `unknown-${name}`) + (QUERIES[path] ?? '')

/** A body that every POST and PUT of an id route gets past its own validation with. */
const BODY = JSON.stringify({
  split: 'val',
  trajectory_groups: [],
  steps: [1],
  rule: 'all',
  description: 'x',
  tags: [],
  part_ids: ['part'],
  messages: [{ role: 'user', content: 'x' }],
  data_source: { type: 'jsonl' },
})

async function call(key: string, method: string, path: string, body: string | null = BODY) {
  const response = await service.app.request(fill(path), {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(method === 'GET' || method === 'HEAD' || body === null ? {} : { body }),
  })
  return { status: response.status, text: await response.text() }
}

/** Routes whose parameter names a thing of an entity; base models are the server's, the same for all. */
const idRoutes = () =>
  routes.filter(({ path }) => parametersOf(path).length > 0 && !path.startsWith('/v1/preview/base-models/'))

const JUDGE = { type: 'score_model', name: 'judge', input: [{ role: 'user', content: 'x' }] }

describe('every route with an id', () => {
  it('is known to this test: its parameters name things that exist', async () => {
    expect(idRoutes().length).toBeGreaterThan(12)
    for (const { path } of idRoutes()) for (const name of parametersOf(path)) expect(ids, path).toHaveProperty(name)
    for (const { method, path } of idRoutes()) {
      if (method === 'GET') expect((await call(service.apiKey, method, path)).status, path).toBe(200)
    }
  })

  it('is not found with the key of another entity', async () => {
    const { key } = await service.createKey({ entity: 'others' })
    await expectNothing(key)
  })

  it('is not found with a key of another project', async () => {
    const { key } = await service.createKey({ project: 'elsewhere' })
    await expectNothing(key)
  })

  async function expectNothing(key: string): Promise<void> {
    for (const { method, path } of idRoutes()) {
      const { status, text } = await call(key, method, path)
      expect(status, `${method} ${path}: ${text}`).toBe(404)
    }
    for (const { method, path } of routes.filter(({ path }) => parametersOf(path).length === 0)) {
      if (method !== 'GET' || ROUTES.some((route) => route.scope === 'open' && route.path === path)) continue
      const { status, text } = await call(key, method, path)
      expect(status, `${path}: ${text}`).toBe(200)
      expect(text, path).not.toContain('secret')
      if (path === '/v1/preview/audit') {
        // what was just asked with this key, by the ids that it named; nothing of ours
        const whose = (JSON.parse(text) as { data: { key_id: string }[] }).data.map(({ key_id: id }) => id)
        expect([new Set(whose).size, whose.includes(ids['key_id'] ?? '')]).toEqual([1, false])
        continue
      }
      for (const name of ['model_id', 'training_job_id', 'file_id', 'key_id'])
        expect(text, path).not.toContain(ids[name] ?? '')
    }
    const naming: readonly (readonly [string, string, object])[] = [
      ['POST', '/v1/preview/training-jobs', { model_id: ids['model_id'], trajectory_groups: [] }],
      ['POST', '/v1/chat/completions', { model: 'local/tests/secret', messages: [{ role: 'user', content: 'x' }] }],
      [
        'POST',
        '/v1/fine_tuning/alpha/graders/run',
        { grader: { ...JUDGE, model: 'local/tests/secret' }, model_sample: '' },
      ],
      ['POST', '/v1/chat/completions', { model: ids['model_id'], messages: [{ role: 'user', content: 'x' }] }],
    ]
    for (const [method, path, body] of naming) {
      expect((await call(key, method, path, JSON.stringify(body))).status, `${method} ${path}`).toBe(404)
    }
    const model = await service.json<{ id: string }>('/v1/preview/models', {
      headers: { authorization: `Bearer ${key}` },
      json: { project: 'elsewhere', name: 'own', base_model: 'trainyard/tiny-random', return_existing: true },
    })
    expect(model.status).toBe(200)
    const data = await service.json<{ detail: string }>('/v1/preview/sft-training-jobs', {
      headers: { authorization: `Bearer ${key}` },
      json: { model_id: model.body.id, training_data_url: ids['file_id'] },
    })
    expect([data.status, data.body.detail]).toEqual([400, expect.stringContaining('no file')])
  }
})

describe('the scope of a key', () => {
  const limited = async (scope: 'read' | 'write') => (await service.createKey({ scope })).key

  it('read: everything is read, models answer, and every other route is refused by name', async () => {
    const key = await limited('read')
    for (const { method, path } of routes) {
      const isManaging = /^\/v1\/preview\/(?:keys|audit)/.test(path)
      // of its own: it signs out, and fetches what it reads
      const isOwn = /^\/v1\/preview\/(?:sessions|downloads)/.test(path)
      const isAnswer =
        method === 'POST' &&
        /^\/v1\/(chat\/)?completions|^\/v1\/(responses|messages|fine_tuning\/alpha\/graders)/.test(path)
      const { status, text } = await call(key, method, path, method === 'DELETE' ? BODY : '{}')
      if ((method === 'GET' || isAnswer || isOwn) && !isManaging) expect(status, `${method} ${path}`).not.toBe(403)
      else {
        expect(status, `${method} ${path}`).toBe(403)
        expect(text, `${method} ${path}`).toContain('this API key has scope \\"read\\"')
      }
    }
    const chat = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 2 }
    expect((await call(key, 'POST', '/v1/chat/completions', JSON.stringify(chat))).status).toBe(200)
  })

  it('write: keys and the audit log alone are out of reach', async () => {
    const key = await limited('write')
    for (const { method, path } of routes.filter(({ path }) => /^\/v1\/preview\/(?:keys|audit)/.test(path))) {
      expect((await call(key, method, path, '{"scope":"admin"}')).status, `${method} ${path}`).toBe(403)
    }
    expect((await call(key, 'POST', '/v1/preview/training-jobs', '{}')).status).toBe(422)
  })

  it('is checked on the path as it is routed: a slash at the end opens nothing', async () => {
    const key = await limited('write')
    expect((await call(key, 'GET', '/v1/preview/keys/')).status).toBe(403)
    expect((await call(key, 'GET', '/v1/preview/%6beys')).status).toBe(403)
  })
})

describe('a key bound to a project', () => {
  it('works in it as any other, names no other, and hands on no more than it has', async () => {
    const admin = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'admin', project: 'tests' } })
    const headers = { authorization: `Bearer ${admin.body.key}` }
    expect((await service.json(`/v1/preview/models/${ids['model_id']}`, { headers })).status).toBe(200)
    expect((await service.json('/v1/preview/models?project=other', { headers })).status).toBe(403)
    const other = { project: 'other', name: 'm', base_model: 'trainyard/tiny-random' }
    expect((await service.json('/v1/preview/models', { headers, json: other })).status).toBe(403)
    const made = await service.json<CreatedKey>('/v1/preview/keys', { headers, json: { scope: 'read' } })
    expect(made.body).toMatchObject({ entity: 'local', project: 'tests', scope: 'read' })
    const wide = await service.json('/v1/preview/keys', { headers, json: { scope: 'read', project: 'other' } })
    expect(wide.status).toBe(403)
    expect((await service.json(`/v1/preview/keys/${ids['key_id']}`, { headers })).status).toBe(404)
  })
})
