/**
 * The gateway passes calls on: the same bytes as asked directly, of stock clients and of none; whose call it is; what is kept of it.
 */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ExampleRow } from '#plugins/gateway/examples.js'
import type { CreateRouteRequest, Route, RouteSummary } from '#plugins/gateway/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'
import { type FakeUpstream, startUpstream } from './upstream.js'

const ROUTES = '/v1/preview/gateway-routes'
/** Of the upstream: nothing of ours may keep it. */
const UPSTREAM_KEY = 'sk-upstream-0123456789abcdefghijkl'
let upstream: FakeUpstream
let service: TestService
let count = 0

beforeAll(async () => {
  upstream = await startUpstream()
  process.env['GATEWAY_TEST_KEY'] = 'sk-stored-0123456789abcdefghijklm'
  service = await createTestService({
    gatewayHosts: ['127.0.0.1'],
    gatewayKeys: [`GATEWAY_TEST_KEY=${upstream.url}`],
    tuning: { plugins: { gateway: { pauseMs: 5 } } },
  })
})
afterAll(async () => {
  delete process.env['GATEWAY_TEST_KEY']
  await service.dispose()
  await upstream.close()
})

async function makeRoute(fields: Partial<CreateRouteRequest> = {}): Promise<Route> {
  count += 1
  const json = { name: `route-${count}`, upstream: upstream.url, ...fields }
  const { status, body } = await service.json<Route>(ROUTES, { json })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

const summaryOf = async ({ id }: Route): Promise<RouteSummary> =>
  (await service.json<RouteSummary>(`${ROUTES}/${id}`)).body

/** Waits for its calls to be written. */
const recorded = (route: Route, calls: number): Promise<RouteSummary> =>
  until(async () => {
    const summary = await summaryOf(route)
    return summary.recorded.calls >= calls ? summary : null
  }, `${calls} recorded calls`)

async function rowsOf({ id }: Route): Promise<ExampleRow[]> {
  const text = await (await service.fetch(`${ROUTES}/${id}/rows`)).text()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ExampleRow)
}

interface Asked {
  readonly path: string
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}
const authorized = { authorization: `Bearer ${UPSTREAM_KEY}`, 'content-type': 'application/json' }

const ask = (address: string, { path, body, headers = {} }: Asked, signal: AbortSignal | null = null) =>
  fetch(`${address}${path}`, {
    method: 'POST',
    headers: { ...authorized, ...headers },
    body: JSON.stringify(body),
    signal,
  })

const through = (route: Route, { headers, ...asked }: Asked, signal?: AbortSignal) =>
  ask(service.url + route.path, { ...asked, headers: { ...headers, 'x-trainyard-key': service.apiKey } }, signal)

const messages = [{ role: 'user', content: 'Hi' }]
const tools = [{ type: 'function', function: { name: 'count', parameters: { type: 'object' } } }]
const CALLS: Readonly<Record<string, Asked>> = {
  'chat, whole': { path: '/chat/completions', body: { model: 'gpt', messages } },
  'chat, streamed': { path: '/chat/completions', body: { model: 'gpt', messages, stream: true } },
  'chat with tools, streamed': { path: '/chat/completions', body: { model: 'gpt', messages, tools, stream: true } },
  'messages, whole': { path: '/messages', body: { model: 'claude', max_tokens: 9, messages } },
  'messages, streamed': { path: '/messages', body: { model: 'claude', max_tokens: 9, messages, stream: true } },
  'responses, whole': { path: '/responses', body: { model: 'gpt', input: 'Hi' } },
  'responses, streamed': { path: '/responses', body: { model: 'gpt', input: 'Hi', stream: true } },
  'a refusal 429': { path: '/chat/completions', body: { model: 'limited', messages } },
  'a failure 500': { path: '/messages', body: { model: 'broken', max_tokens: 9, messages, stream: true } },
  'an image': {
    path: '/chat/completions',
    body: {
      model: 'gpt',
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] },
      ],
    },
  },
}

describe('bytes', () => {
  it.each(Object.entries(CALLS))(
    '%s: status, headers that matter and every byte as asked directly',
    async (_, asked) => {
      const route = await makeRoute()
      const direct = await ask(`${upstream.url}/v1`, asked)
      const passed = await through(route, asked)
      expect(passed.status).toBe(direct.status)
      for (const name of [
        'content-type',
        'retry-after',
        'x-request-id',
        'request-id',
        'x-ratelimit-remaining-requests',
      ])
        expect(passed.headers.get(name), name).toBe(direct.headers.get(name))
      expect(Buffer.from(await passed.arrayBuffer()).equals(Buffer.from(await direct.arrayBuffer()))).toBe(true)
      const [before, after] = upstream.calls.slice(-2)
      expect(after?.body.equals(before?.body ?? Buffer.alloc(0))).toBe(true)
      expect(after?.path).toBe(before?.path)
      expect(after?.headers.authorization).toBe(`Bearer ${UPSTREAM_KEY}`)
      expect(JSON.stringify(after?.headers)).not.toContain(service.apiKey)
    },
  )

  it('what is no call of a model passes on, with its query, and sets nothing of this server', async () => {
    const route = await makeRoute()
    const headers = { ...authorized, 'x-trainyard-key': service.apiKey, cookie: 'session=1' }
    const answer = await fetch(`${service.url}${route.path}/models?limit=5&a=%2Fb`, { headers })
    expect(((await answer.json()) as { data: unknown[] }).data).toHaveLength(1)
    expect(upstream.calls.at(-1)?.path).toBe('/v1/models?limit=5&a=%2Fb')
    expect(upstream.calls.at(-1)?.headers.cookie).toBeUndefined()
    expect(answer.headers.get('set-cookie')).toBeNull()
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect(answer.headers.get('content-security-policy')).toBe('sandbox')
    expect((await summaryOf(route)).calls).toBe(0)
  })

  it('an answer that the upstream cuts is cut, and counted as such', async () => {
    const route = await makeRoute()
    const passed = await through(route, { path: '/chat/completions', body: { model: 'cut', messages, stream: true } })
    await expect(passed.text()).rejects.toThrow()
    expect((await recorded(route, 1)).recorded.outcomes).toEqual({ cut: 1 })
    expect(await rowsOf(route)).toEqual([])
  })

  it('a client that leaves ends the upstream’s answer', async () => {
    const route = await makeRoute()
    const leaving = new AbortController()
    const asked = { path: '/chat/completions', body: { model: 'slow', messages, stream: true } }
    const passed = await through(route, asked, leaving.signal)
    await passed.body?.getReader().read()
    leaving.abort()
    expect(await upstream.calls.at(-1)?.left).toBe(true)
    upstream.goOn()
    expect((await recorded(route, 1)).recorded.outcomes).toEqual({ cancelled: 1 })
  })

  it('one key has no more calls at once than elsewhere: the next is refused until one has ended', async () => {
    const narrow = await createTestService({ gatewayHosts: ['127.0.0.1'], maxConcurrentRequests: 1 })
    const json = { name: 'narrow', upstream: upstream.url }
    const { body: route } = await narrow.json<Route>(ROUTES, { json })
    const call = (model: string) =>
      ask(narrow.url + route.path, {
        path: '/chat/completions',
        body: { model, messages, stream: true },
        headers: { 'x-trainyard-key': narrow.apiKey },
      })
    const slow = await call('slow')
    const reader = slow.body?.getReader()
    await reader?.read()
    const refused = await call('gpt')
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    upstream.goOn()
    for (let next = await reader?.read(); next?.done === false; ) next = await reader?.read()
    await until(async () => (await call('gpt')).status === 200, 'a place')
    await narrow.dispose()
  })

  it('the first parts of a slow answer are there before the last', async () => {
    const route = await makeRoute()
    const passed = await through(route, {
      path: '/messages',
      body: { model: 'slow', max_tokens: 9, messages, stream: true },
    })
    const reader = passed.body?.getReader()
    const first = Buffer.from((await reader?.read())?.value ?? []).toString()
    expect(first).toContain('message_start')
    expect(first).not.toContain('message_stop')
    upstream.goOn()
    let rest = ''
    for (let next = await reader?.read(); next?.done === false; next = await reader?.read())
      rest += Buffer.from(next.value)
    expect(rest).toContain('message_stop')
  })

  it('an upstream that is not there is said, and nothing is recorded', async () => {
    const gone = await startUpstream()
    await gone.close()
    const route = await makeRoute({ upstream: gone.url })
    const answer = await through(route, CALLS['chat, whole'] as Asked)
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ type: 'error', error: { code: 'upstream_unreachable' } })
    expect((await summaryOf(route)).recorded.calls).toBe(0)
  })
})

describe('stock clients', () => {
  const openai = (route: Route) =>
    new OpenAI({
      baseURL: service.url + route.path,
      apiKey: UPSTREAM_KEY,
      maxRetries: 0,
      defaultHeaders: { 'x-trainyard-key': service.apiKey },
    })
  const anthropic = (route: Route) =>
    new Anthropic({
      baseURL: (service.url + route.path).replace(/\/v1$/, ''),
      apiKey: UPSTREAM_KEY,
      maxRetries: 0,
      defaultHeaders: { 'x-trainyard-key': service.apiKey },
    })
  const user = [{ role: 'user' as const, content: 'Hi' }]

  it('openai: chat and responses, whole and streamed, become rows with what was said', async () => {
    const route = await makeRoute()
    const client = openai(route)
    const whole = await client.chat.completions.create({ model: 'gpt', messages: user })
    expect(whole.choices[0]?.message.content).toBe('Grüße, 世界 🌍!')
    expect(whole._request_id).toBe('req_upstream')
    let text = ''
    const stream = await client.chat.completions.create({ model: 'gpt', messages: user, stream: true })
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe('Grüße, 世界 🌍!')
    expect((await client.responses.create({ model: 'gpt', input: 'Hi', instructions: 'Be brief.' })).output_text).toBe(
      text,
    )
    for await (const _ of await client.responses.create({ model: 'gpt', input: 'Hi', stream: true }));
    const { recorded: kept } = await recorded(route, 4)
    expect(kept.models).toEqual([
      { model: 'gpt-2026', calls: 4, input_tokens: 44, cached_tokens: 16, output_tokens: 28 },
    ])
    expect(kept.content).toEqual({ kept: 4 })
    const rows = await rowsOf(route)
    const conversation = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: text },
    ]
    const briefly = [{ role: 'system', content: 'Be brief.' }, ...conversation]
    expect(rows.map((row) => row.messages)).toEqual([conversation, conversation, briefly, conversation])
    await expect(client.chat.completions.create({ model: 'limited', messages: user })).rejects.toThrow(
      /429.*no, says limited/,
    )
  })

  it('anthropic: messages with tools, whole and streamed, are one and the same row', async () => {
    const route = await makeRoute()
    const client = anthropic(route)
    const tool = { name: 'count', description: 'Counts.', input_schema: { type: 'object' as const } }
    const asked = { model: 'claude', max_tokens: 99, messages: user, tools: [tool], system: 'Be brief.' }
    const whole = await client.messages.create(asked)
    const streamed = await client.messages.stream(asked).finalMessage()
    expect(streamed.content).toEqual(whole.content)
    const { recorded: kept } = await recorded(route, 2)
    expect(kept.models).toEqual([
      { model: 'claude-2026', calls: 2, input_tokens: 22, cached_tokens: 8, output_tokens: 14 },
    ])
    expect(kept.alike).toEqual({ of: 2, shapes: 1, largest_shape: 2, prompts: 1, answers: 1 })
    const [first, second] = await rowsOf(route)
    expect(second?.messages).toEqual(first?.messages)
    expect(first?.messages.at(-1)).toMatchObject({
      role: 'assistant',
      content: null,
      tool_calls: [{ function: { name: 'count', arguments: { text: 'tree' } } }],
    })
    expect(first?.tools).toHaveLength(1)
  })
})

describe('whose call it is', () => {
  const asked = { path: '/chat/completions', body: { model: 'gpt', messages } }

  it('without a key of ours nothing passes on a route that needs one, nor by that of another entity', async () => {
    const route = await makeRoute()
    const before = upstream.calls.length
    const none = await ask(service.url + route.path, asked)
    expect(none.status).toBe(401)
    expect(((await none.json()) as { error: { hint: string } }).error.hint).toContain('X-Trainyard-Key')
    const foreign = await service.createKey({ entity: 'others' })
    const refused = await ask(service.url + route.path, { ...asked, headers: { 'x-trainyard-key': foreign.key } })
    expect(refused.status).toBe(404)
    expect(upstream.calls).toHaveLength(before)
    expect((await summaryOf(route)).calls).toBe(0)
  })

  it('a local route takes programs of this machine, and none that come through a proxy', async () => {
    const route = await makeRoute({ access: 'local' })
    expect((await ask(service.url + route.path, asked)).status).toBe(200)
    expect((await ask(service.url + route.path, { ...asked, headers: { 'x-forwarded-for': '8.8.8.8' } })).status).toBe(
      401,
    )
    const { status, body } = await service.json<{ error: { code: string } }>(ROUTES, {
      json: { name: route.name, upstream: upstream.url, access: 'local', sample: 0.5 },
    })
    expect([status, body.error.code]).toEqual([409, 'route_exists'])
    const same = { name: route.name, upstream: upstream.url, access: 'local' }
    expect((await service.json<Route>(ROUTES, { json: same })).body.id).toBe(route.id)
  })

  it('a key of ours in the place of the upstream’s stays here, and the stored one goes on in its form', async () => {
    const route = await makeRoute({ key_variable: 'GATEWAY_TEST_KEY' })
    const ours = { authorization: `Bearer ${service.apiKey}` }
    expect((await ask(service.url + route.path, { ...asked, headers: ours })).status).toBe(200)
    expect(upstream.calls.at(-1)?.headers.authorization).toBe('Bearer sk-stored-0123456789abcdefghijklm')
    const anthropic = { path: '/messages', body: { model: 'c', max_tokens: 1, messages }, headers: ours }
    expect((await ask(service.url + route.path, anthropic)).status).toBe(200)
    expect(upstream.calls.at(-1)?.headers['x-api-key']).toBe('sk-stored-0123456789abcdefghijklm')
    expect(upstream.calls.at(-1)?.headers.authorization).toBeUndefined()
  })

  it.each([
    [{ key_variable: 'HOME' }, 'key_variable_refused'],
    [{ upstream: 'https://example.com', key_variable: 'GATEWAY_TEST_KEY' }, 'key_variable_refused'],
    [{ upstream: 'http://10.0.0.1' }, 'upstream_refused'],
    [{ upstream: 'https://user:pw@example.com' }, 'upstream_refused'],
    [{ mask_patterns: ['('] }, 'invalid_value'],
    [{ mask_patterns: ['a*'] }, 'invalid_value'],
  ])('%j is refused as %s', async (fields, code) => {
    const json = { name: 'refused', upstream: upstream.url, ...fields }
    const { status, body } = await service.json<{ error: { code: string } }>(ROUTES, { json })
    expect([status, body.error?.code], JSON.stringify(body)).toEqual([expect.any(Number), code])
  })
})

describe('what is kept', () => {
  it('counts alone without content, and for a share of calls', async () => {
    const bare = await makeRoute({ content: false })
    const sampled = await makeRoute({ sample: 0 })
    for (const route of [bare, sampled]) await (await through(route, CALLS['chat, streamed'] as Asked)).text()
    const { recorded: kept } = await recorded(bare, 1)
    expect(kept.content).toEqual({ not_wanted: 1 })
    expect(kept.models[0]).toMatchObject({ model: 'gpt-2026', input_tokens: 11, output_tokens: 7 })
    expect(await rowsOf(bare)).toEqual([])
    const counted = await until(async () => {
      const summary = await summaryOf(sampled)
      return summary.calls > 0 ? summary : null
    }, 'a counted call')
    expect([counted.calls, counted.recorded.calls]).toEqual([1, 0])
  })

  it('a call beyond the size limit is counted without its content', async () => {
    const route = await makeRoute({ max_call_bytes: 1000 })
    const content = 'x'.repeat(2000)
    await (
      await through(route, { path: '/chat/completions', body: { model: 'gpt', messages: [{ role: 'user', content }] } })
    ).text()
    expect((await recorded(route, 1)).recorded.content).toEqual({ too_large: 1 })
  })

  it('a pattern that never ends costs a call its content, and nobody anything else', async () => {
    const route = await makeRoute({ mask_patterns: ['(x+x+)+y'] })
    const content = 'x'.repeat(40)
    const asked = { path: '/chat/completions', body: { model: 'gpt', messages: [{ role: 'user', content }] } }
    expect((await through(route, asked)).status).toBe(200)
    expect((await recorded(route, 1)).recorded.content).toEqual({ mask_too_slow: 1 })
  })
})
