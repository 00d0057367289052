/**
 * Errors as clients see them (6) and the routes beside chat (8), without a model's computing. Stand-in engine.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { until } from '../../../support/until.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const CHAT = '/v1/chat/completions'
const hi = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] })

interface ErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly code: number }
}

describe('errors (6)', () => {
  it.each(['"text"', '[]', '42', 'null', '{"messages": [', ''])('a body of %s is 400', async (body) => {
    const response = await service.fetch(CHAT, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as ErrorBody
    expect([error.code, typeof error.message]).toEqual([400, 'string'])
  })

  it('malformed JSON is named so', async () => {
    const headers = { 'content-type': 'application/json' }
    const response = await service.fetch(CHAT, { method: 'POST', body: '{"messages": [', headers })
    expect(await response.text()).toContain('json_invalid')
  })

  it.each(['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON;CHARSET=UTF-8'])(
    'the content type %s passes',
    async (type) => {
      const response = await service.fetch(CHAT, { method: 'POST', body: hi, headers: { 'content-type': type } })
      expect(response.status).toBe(200)
    },
  )

  it.each(['text/plain', 'application/x-www-form-urlencoded'])('the content type %s does not', async (type) => {
    const response = await service.fetch(CHAT, { method: 'POST', body: hi, headers: { 'content-type': type } })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain("Unsupported Media Type: Only 'application/json' is allowed")
  })

  it('no key and a wrong one are 401, the scheme in any case', async () => {
    const ask = async (authorization: string) =>
      service.fetch(CHAT, { method: 'POST', body: hi, headers: { authorization, 'content-type': 'application/json' } })
    for (const wrong of ['', 'Bearer nope', `Basic ${service.apiKey}`]) {
      const response = await ask(wrong)
      expect([response.status, await response.json()]).toEqual([
        401,
        expect.objectContaining({ error: 'Unauthorized' }),
      ])
    }
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      expect((await ask(`${scheme} ${service.apiKey}`)).status).toBe(200)
    }
  })

  it('an unknown path is 404, another method 405', async () => {
    expect((await service.fetch('/v1/chat/nothing')).status).toBe(404)
    const response = await service.fetch(CHAT, { method: 'DELETE' })
    expect(response.status).toBe(405)
  })

  it('a refusal that is final says so to SDKs that would try again', async () => {
    const body = { messages: [{ role: 'user', content: [{ type: 'hologram' }] }] }
    const response = await service.fetch(CHAT, { json: body })
    expect([response.status, response.headers.get('x-should-retry')]).toEqual([501, 'false'])
  })
})

describe('other routes (8)', () => {
  it('adapters are not loaded by path: models are trained or imported', async () => {
    for (const path of ['/v1/load_lora_adapter', '/v1/unload_lora_adapter']) {
      expect((await service.fetch(path, { json: { lora_name: 'a', lora_path: '/etc' } })).status).toBe(404)
    }
  })

  it('thousands of models are one list, sent in parts: every model once, in order', async () => {
    const own = await createTestService()
    try {
      const sqlite = openSqlite(join(own.dataDir, 'trainyard.sqlite3'))
      sqlite
        .prepare(
          `insert into models (id, entity, project, name, base_model, run_id, step)
          with recursive n(i) as (select 0 union all select i + 1 from n where i < 2499)
          select printf('01900001-0000-7000-8000-%012x', i), 'local', 'p', 'n' || i, 'trainyard/tiny-random', 'r' || i, 0 from n`,
        )
        .run()
      sqlite.close()
      const { status, body } = await own.json<{ object: string; data: { id: string }[] }>('/v1/models')
      const bases = body.data.filter(({ id }) => !id.startsWith('local/'))
      expect([status, body.object]).toEqual([200, 'list'])
      expect(body.data.slice(bases.length).map(({ id }) => id)).toEqual(
        Array.from({ length: 2500 }, (_, i) => `local/p/n${i}`),
      )
      // in pages it is the same list
      type Page = { data: { id: string }[]; first_id: string; last_id: string; has_more: boolean }
      const pages: Page[] = []
      for (
        let after: string | null = '';
        after !== null;
        after = pages.at(-1)?.has_more ? pages.at(-1)!.last_id : null
      ) {
        const cursor: string = after === '' ? '' : `&after=${encodeURIComponent(after)}`
        pages.push((await own.json<Page>(`/v1/models?limit=1000${cursor}`)).body)
      }
      expect(pages.map(({ data }) => data.length)).toEqual([1000, 1000, 500 + bases.length])
      expect(pages.flatMap(({ data }) => data.map(({ id }) => id))).toEqual(body.data.map(({ id }) => id))
      for (const { data, first_id, last_id } of pages)
        expect([data[0]?.id, data.at(-1)?.id]).toEqual([first_id, last_id])
      const rest = (await own.json<Page>('/v1/models?after=local/p/n2498')).body
      expect([rest.data.map(({ id }) => id), rest.has_more]).toEqual([['local/p/n2499'], false])
      expect((await own.json<Page>('/v1/models?after=local/p/n2499')).body).toMatchObject({ data: [], last_id: '' })
      const unknown = await own.json<{ error: { code: string } }>('/v1/models?after=nobody')
      expect([unknown.status, unknown.body.error.code]).toEqual([400, 'invalid_cursor'])
      // what comes and goes is seen at once, though the list is kept
      const ids = async () => (await own.json<Page>('/v1/models')).body.data.map(({ id }) => id)
      const made = await own.json<{ id: string }>('/v1/preview/models', {
        json: { project: 'p', name: 'new', base_model: 'trainyard/tiny-random' },
      })
      expect(await ids()).toContain('local/p/new')
      await own.fetch(`/v1/preview/models/${made.body.id}`, { method: 'DELETE' })
      expect(await ids()).toEqual(body.data.map(({ id }) => id))
    } finally {
      await own.dispose()
    }
  })

  it('a base model’s card', async () => {
    const { body } = await service.json<{ object: string; data: object[] }>('/v1/models')
    expect(body.object).toBe('list')
    expect(body.data[0]).toMatchObject({
      id: 'trainyard/tiny-random',
      object: 'model',
      created: expect.any(Number),
      owned_by: expect.any(String),
      root: expect.any(String),
      parent: null,
      max_model_len: 2048,
      permission: expect.any(Array),
    })
  })

  it('the context of a model that nobody has used yet is known once its files were read, and its adapters have it too', async () => {
    const own = await createTestService({
      scripted: false,
      baseModels: ['trainyard/tiny-random', 'trainyard/spark'],
      maxContextLength: 1500,
    })
    try {
      const { status } = await own.json('/v1/preview/models', {
        json: { project: 'p', name: 'on-spark', base_model: 'trainyard/spark' },
      })
      expect(status).toBe(200)
      const lengthsOf = async (): Promise<Record<string, number | null>> => {
        const { body } = await own.json<{ data: { id: string; max_model_len: number | null }[] }>('/v1/models')
        return Object.fromEntries(body.data.map(({ id, max_model_len }) => [id, max_model_len]))
      }
      await until(async () => (await lengthsOf())['trainyard/spark'] !== null, 'the length of spark is known')
      expect(await lengthsOf()).toMatchObject({ 'trainyard/spark': 1500, 'local/p/on-spark': 1500 })
    } finally {
      await own.dispose()
    }
  })

  it('probes answer at the root', async () => {
    for (const [method, path] of [
      ['GET', '/health'],
      ['GET', '/ping'],
      ['POST', '/ping'],
    ] as const) {
      const response = await fetch(service.url + path, { method })
      expect([path, response.status]).toEqual([path, 200])
    }
    const version = (await (await fetch(`${service.url}/version`)).json()) as { version: string }
    expect(version.version).toMatch(/^\d+\.\d+\.\d+/)
  })

  it.each([
    [
      'gauge',
      [
        'num_requests_running',
        'num_requests_waiting',
        'kv_cache_usage_perc',
        'lora_requests_info',
        'cache_config_info',
      ],
    ],
    [
      'counter',
      [
        'prefix_cache_queries_total',
        'prefix_cache_hits_total',
        'num_preemptions_total',
        'prompt_tokens_total',
        'generation_tokens_total',
        'request_success_total',
      ],
    ],
    [
      'histogram',
      [
        'iteration_tokens_total',
        'request_prompt_tokens',
        'request_generation_tokens',
        'request_params_n',
        'request_params_max_tokens',
        'time_to_first_token_seconds',
        'inter_token_latency_seconds',
        'request_time_per_output_token_seconds',
        'e2e_request_latency_seconds',
        'request_queue_time_seconds',
        'request_inference_time_seconds',
        'request_prefill_time_seconds',
        'request_decode_time_seconds',
      ],
    ],
  ])('metrics of type %s have vLLM’s names', async (type, names) => {
    await service.json(CHAT, { json: JSON.parse(hi) })
    const text = await (await fetch(`${service.url}/metrics`)).text()
    for (const name of names) expect(text).toContain(`# TYPE vllm:${name} ${type}\n`)
  })

  it('and its buckets', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text()
    const bucketsOf = (name: string) =>
      [...text.matchAll(new RegExp(`^vllm:${name}_bucket\\{[^}]*le="([^"]+)"`, 'gm'))].map(([, bound]) => Number(bound))
    const first = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
    expect(bucketsOf('time_to_first_token_seconds').slice(0, 22)).toEqual([...first, 160, 640, 2560])
    const between = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
    expect(bucketsOf('inter_token_latency_seconds').slice(0, 19)).toEqual(between)
    const whole = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
    expect(bucketsOf('e2e_request_latency_seconds').slice(0, 21)).toEqual(whole)
    expect(bucketsOf('request_prompt_tokens').slice(0, 10)).toEqual([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000])
  })
})
