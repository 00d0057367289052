/** The client: requests as the contract wants them, retries, timeouts, errors, pages, and following a job. */
import { describe, expect, test } from 'vitest'
import { createClient } from '../../../../src/sdk/client/client.js'
import { ApiError, ConnectionError, ProtocolError, RequestTimeoutError } from '../../../../src/sdk/client/errors.js'
import type { HttpOptions } from '../../../../src/sdk/client/http.js'
import type { Fetch } from '../../../../src/sdk/client/light-fetch.js'
import { collectPages } from '../../../../src/sdk/client/pages.js'
import { errorBody, JOB, MODEL, page, type Routes, scriptedService } from '../../../support/service/scripted-service.js'

const waits: number[] = []
function clientOf(fetch: Fetch, options: Partial<HttpOptions> = {}) {
  waits.length = 0
  return createClient({
    baseUrl: 'http://h:1',
    apiKey: 'secret',
    fetch,
    sleep: (ms) => {
      waits.push(ms)
      return Promise.resolve()
    },
    ...options,
  })
}
/** Answers in order; the last one repeats. */
function inOrder(...answers: (() => Response)[]): { fetch: Fetch; count: () => number } {
  let count = 0
  return {
    fetch: () => {
      const answer = answers[Math.min(count, answers.length - 1)]
      count += 1
      return new Promise((resolve) => resolve(answer?.() ?? Response.json({})))
    },
    count: () => count,
  }
}
function broken(code: string): () => Response {
  return () => {
    throw Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('x'), { code }) })
  }
}
const ok = () => Response.json(page([MODEL]))
const status =
  (code: number, headers = {}) =>
  () =>
    Response.json(errorBody('busy', 'busy'), { status: code, headers })

describe('requests', () => {
  test('carry the key, the query and a JSON body also on DELETE', async () => {
    const routes: Routes = {
      [`DELETE /v1/preview/models/${MODEL.id}/checkpoints`]: { body: { deleted_count: 1, not_found_steps: [] } },
      'GET /v1/preview/models': { body: page([MODEL]) },
    }
    const { fetch, requests } = scriptedService(routes)
    const client = clientOf(fetch)
    await client.checkpoints.delete(MODEL.id, [3])
    await client.models.list({ project: 'p q', limit: 5 })
    expect(requests[0]?.body).toEqual({ steps: [3] })
    expect(requests[0]?.headers.get('authorization')).toBe('Bearer secret')
    expect(requests[1]?.query.get('project')).toBe('p q')
    expect(requests[1]?.query.has('after')).toBe(false)
  })
  test('a create carries an idempotency key, a new one each time', async () => {
    const { fetch, requests } = scriptedService({ 'POST /v1/preview/training-jobs': { body: JOB } })
    const client = clientOf(fetch)
    for (let i = 0; i < 2; i += 1) await client.trainingJobs.createRl({ model_id: MODEL.id, trajectory_groups: [] })
    const keys = requests.map((request) => request.headers.get('idempotency-key'))
    expect(keys[0]).toMatch(/^[0-9a-f-]{36}$/)
    expect(keys[1]).not.toBe(keys[0])
  })
  test('ids are never part of the path structure', async () => {
    const { fetch, requests } = scriptedService({})
    await expect(clientOf(fetch).models.get('../../x?y')).rejects.toThrow()
    expect(requests[0]?.path).toBe('/v1/preview/models/..%2F..%2Fx%3Fy')
  })
  test('names that may hold slashes keep them, and nothing else of a path', async () => {
    const { fetch, requests } = scriptedService({})
    await expect(clientOf(fetch).baseModels.get('hub/a b?c#d')).rejects.toThrow()
    expect(requests[0]?.path).toBe('/v1/preview/base-models/hub/a%20b%3Fc%23d')
  })
  test('are typed by the rows of their endpoints', async () => {
    const { fetch } = scriptedService({})
    const client = clientOf(fetch)
    const wrong = [
      // @ts-expect-error tokens are numbers
      () => client.text.detokenize({ tokens: ['1'] }),
      // @ts-expect-error a model has a name
      () => client.models.create({ project: 'p', base_model: 'b' }),
      // @ts-expect-error there is no such scope
      () => client.keys.create({ scope: 'all' }),
      // @ts-expect-error there is no such query
      () => client.models.list({ nam: 'n' }),
      // @ts-expect-error a job has a model
      () => client.trainingJobs.createSft({ training_data_url: 'file-1' }),
    ]
    for (const call of wrong) await expect(call()).rejects.toThrow()
  })
})

describe('retries', () => {
  test('429 and 503 wait as long as the server asks', async () => {
    const script = inOrder(status(429, { 'retry-after': '2' }), status(503, { 'retry-after-ms': '150' }), ok)
    await clientOf(script.fetch).models.list()
    expect(waits).toEqual([2000, 150])
  })
  test('a create is retried when the server refused it, not when the connection broke', async () => {
    const refused = inOrder(status(503), () => Response.json(MODEL))
    await clientOf(refused.fetch).models.create({ name: 'n', project: 'p', base_model: 'b' })
    expect(refused.count()).toBe(2)
    const reset = inOrder(broken('ECONNRESET'), () => Response.json(MODEL))
    await expect(clientOf(reset.fetch).models.create({ name: 'n', project: 'p', base_model: 'b' })).rejects.toThrow(
      ConnectionError,
    )
    expect(reset.count()).toBe(1)
  })
  test('a read survives a broken connection; a refused one is reported at once', async () => {
    const reset = inOrder(broken('ECONNRESET'), broken('UND_ERR_SOCKET'), ok)
    await clientOf(reset.fetch).models.list()
    expect(reset.count()).toBe(3)
    const refused = inOrder(broken('ECONNREFUSED'))
    await expect(clientOf(refused.fetch).models.list()).rejects.toThrow('cannot reach http://h:1 (connection refused)')
    expect(refused.count()).toBe(1)
  })
  test('https to a port that speaks http is one line', async () => {
    const plain = inOrder(broken('EPROTO'))
    await expect(clientOf(plain.fetch).models.list()).rejects.toThrow(
      'cannot reach http://h:1 (TLS failed: does the server speak https?)',
    )
  })
  test('gives up after two retries, and at once when the server asks for more than a minute', async () => {
    const busy = inOrder(status(503))
    await expect(clientOf(busy.fetch).models.list()).rejects.toThrow(ApiError)
    expect(busy.count()).toBe(3)
    const later = inOrder(status(429, { 'retry-after': '3600' }))
    await expect(clientOf(later.fetch).models.list()).rejects.toMatchObject({ category: 'rate_limited' })
    expect(later.count()).toBe(1)
  })
  test('other refusals are never retried', async () => {
    for (const code of [400, 401, 404, 409, 422, 500]) {
      const script = inOrder(status(code))
      await expect(clientOf(script.fetch).models.list()).rejects.toThrow()
      expect(script.count()).toBe(1)
    }
  })
})

describe('errors', () => {
  test.each([
    [401, 'authentication'],
    [403, 'permission'],
    [404, 'not_found'],
    [409, 'conflict'],
    [413, 'too_large'],
    [422, 'invalid_request'],
    [500, 'internal'],
    [501, 'not_implemented'],
  ])('%d is %s', async (code, category) => {
    await expect(clientOf(inOrder(status(code)).fetch).models.list()).rejects.toMatchObject({ category, status: code })
  })
  test.each([
    [
      { detail: [{ loc: ['body', 'groups', 2, 'reward'], msg: 'Field required', type: 'missing' }] },
      'groups[2].reward: Field required',
      'missing',
      'groups[2].reward',
    ],
    [{ detail: 'Failed to create model' }, 'Failed to create model', 'http_422', undefined],
    [{ error: 'Unauthorized' }, 'Unauthorized', 'http_422', undefined],
    [{ error: { message: 'm', code: 404 } }, 'm', 'http_422', undefined],
    ['<html>', "HTTP 422, in another form than a Trainyard server's", 'http_422', undefined],
  ])('the body %j is understood', async (body, message, code, param) => {
    const fetch = inOrder(() => Response.json(body, { status: 422 })).fetch
    await expect(clientOf(fetch).models.list()).rejects.toMatchObject({ message, code, param })
  })
  test.each([
    [413, 'client_max_body_size'],
    [502, 'proxy'],
    [504, 'proxy_read_timeout'],
    [404, 'trainyard whoami'],
  ])('a proxy’s own %d says what to change', async (code, word) => {
    const page = () =>
      new Response('<html><h1>no</h1></html>', { status: code, headers: { 'content-type': 'text/html' } })
    const { fetch } = inOrder(...Array.from({ length: 9 }, () => page))
    const refused = clientOf(fetch, { maxRetries: 0 }).models.list()
    await expect(refused).rejects.toMatchObject({ status: code, hint: expect.stringContaining(word) })
  })
  test('something that is not JSON is named as such', async () => {
    const fetch = inOrder(() => new Response('<html>')).fetch
    await expect(clientOf(fetch).models.list()).rejects.toThrow(ProtocolError)
  })
  test('a server that does not answer is a timeout; an abort is its own reason', async () => {
    const silent: Fetch = (_url, init) =>
      new Promise((_resolve, reject) => init.signal?.addEventListener('abort', () => reject(init.signal?.reason)))
    await expect(clientOf(silent, { timeoutMs: 20 }).models.list()).rejects.toThrow(RequestTimeoutError)
    const reason = new Error('enough')
    await expect(clientOf(silent).models.list({}, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
})

describe('pages', () => {
  test('are walked by the last id until the end', async () => {
    const items = Array.from({ length: 5 }, (_, i) => ({ id: `i${i}` }))
    const asked: (string | undefined)[] = []
    const all = await collectPages(({ after }) => {
      asked.push(after)
      const start = after === undefined ? 0 : Number(after.slice(1)) + 1
      return Promise.resolve({ ...page(items.slice(start, start + 2), start + 2 < 5), object: 'list' as const })
    })
    expect(all.data).toEqual(items)
    expect(all).toMatchObject({ first_id: 'i0', last_id: 'i4', has_more: false })
    expect(asked).toEqual([undefined, 'i1', 'i3'])
  })
  test('a server that ignores the cursor does not loop for ever', async () => {
    const all = await collectPages(() => Promise.resolve({ ...page([{ id: 'a' }], true), object: 'list' as const }))
    expect(all.data).toHaveLength(2)
  })
})

const started = { id: 'e1', type: 'training_started', data: { num_sequences: 1 } }
const step = { id: 'e2', type: 'gradient_step', data: { loss: 1 } }
const ended = { id: 'e3', type: 'training_ended', data: {} }
const eventsPath = `GET /v1/preview/training-jobs/${JOB.id}/events`
function sse(...events: { id: string }[]): Response {
  const text = events.map((event) => `id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`).join('')
  return new Response(`: keep-alive\n\n${text}`, { headers: { 'content-type': 'text/event-stream' } })
}

describe('following a job', () => {
  async function follow(routes: Routes) {
    const service = scriptedService(routes)
    const seen: string[] = []
    for await (const event of clientOf(service.fetch).trainingJobs.follow(JOB.id)) seen.push(event.id)
    return { seen, requests: service.requests }
  }
  test('polls with the last id and stops at the terminal event', async () => {
    const pages = [page([started, step]), page([]), page([ended])]
    const { seen, requests } = await follow({
      [eventsPath]: () => ({ body: pages.shift() }),
      [`GET /v1/preview/training-jobs/${JOB.id}`]: { body: JOB },
    })
    expect(seen).toEqual(['e1', 'e2', 'e3'])
    const cursors = requests
      .filter((request) => request.path.endsWith('/events'))
      .map((each) => each.query.get('after'))
    expect(cursors).toEqual([null, 'e2', 'e2'])
  })
  test('reads server-sent events and comes back after a broken stream without repeating', async () => {
    const streams = [sse(started, step), sse(ended)]
    const { seen, requests } = await follow({ [eventsPath]: () => streams.shift() ?? sse() })
    expect(seen).toEqual(['e1', 'e2', 'e3'])
    expect(requests[1]?.query.get('after')).toBe('e2')
  })
  test('a stream that breaks after a long silence is followed again', async () => {
    let nowMs = 0
    const silent = new ReadableStream(
      {
        pull(controller) {
          nowMs += 600_000
          controller.error(Object.assign(new TypeError('terminated'), { code: 'ECONNRESET' }))
        },
      },
      { highWaterMark: 0 },
    )
    const answers: (() => Response)[] = [
      () => new Response(silent, { headers: { 'content-type': 'text/event-stream' } }),
      broken('ECONNREFUSED'),
      () => sse(ended),
    ]
    const seen: string[] = []
    const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
    for await (const event of clientOf(inOrder(...answers).fetch).trainingJobs.follow(JOB.id, { clock })) {
      seen.push(event.id)
    }
    expect(seen).toEqual(['e3'])
  })
  test('ends when the job is finished and nothing is left after the cursor', async () => {
    const { seen } = await follow({
      [eventsPath]: { body: page([]) },
      [`GET /v1/preview/training-jobs/${JOB.id}`]: { body: { ...JOB, status: 'cancelled' } },
    })
    expect(seen).toEqual([])
  })
  test('an unknown job is an error at once', async () => {
    await expect(follow({})).rejects.toMatchObject({ category: 'not_found' })
  })
})

describe('streaming chat', () => {
  const request = { model: 'm', messages: [{ role: 'user', content: 'q' }] }
  async function read(body: string) {
    const response = new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    const texts: unknown[] = []
    for await (const chunk of clientOf(() => Promise.resolve(response)).chat.stream(request)) {
      texts.push(chunk.choices[0]?.delta.content)
    }
    return texts
  }
  const chunk = (content: string) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content } }] })}\n\n`
  test('yields chunks until [DONE]', async () => {
    expect(await read(`${chunk('a')}${chunk('b')}data: [DONE]\n\n`)).toEqual(['a', 'b'])
  })
  test('a stream that ends early, or carries an error, is an error', async () => {
    await expect(read(chunk('a'))).rejects.toThrow('before it was complete')
    const failure = `data: ${JSON.stringify({ error: { message: 'engine died', code: 503 } })}\n\n`
    await expect(read(chunk('a') + failure)).rejects.toMatchObject({ message: 'engine died', category: 'unavailable' })
  })
})

describe('system check', () => {
  test('a failing check is a result, not an error', async () => {
    const body = { api: true, database: false, cpu_queue: { success: true }, gpu_queue: { success: false } }
    const fetch = inOrder(() => Response.json(body, { status: 503 })).fetch
    expect(await clientOf(fetch).systemCheck()).toEqual(body)
  })
})
