/**
 * What a rollout's address opens, for how long, and what stays of it: sessions, ends, tenants, expiry, retention, logs.
 */
import { Writable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { CreatedRollout, RecordedRollout } from '#plugins/recording/wire.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'
import { until } from '../../support/until.js'

let service: TestService
const lines: string[] = []
const sink = new Writable({
  write: (chunk, _, done) => {
    lines.push(String(chunk))
    done()
  },
})
beforeAll(async () => {
  const tuning = { plugins: { recording: { sweepMs: 20, most: { count: 12, sizeBytes: 1_000_000 } } } }
  const logger = createLogger({ level: 'info', destination: sink })
  service = await createTestService({ trainWorkers: 0, tuning, logger })
  await service.createModel('agent')
})
afterAll(() => service.dispose())

const MODEL = 'agent'
const messages = [{ role: 'user', content: 'hi' }]

async function open(json: object = {}): Promise<CreatedRollout> {
  const { status, body } = await service.json<CreatedRollout>('/v1/preview/rollouts', {
    json: { model: MODEL, ...json },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

function chat(
  { base_url: url }: Pick<CreatedRollout, 'base_url'>,
  headers: Record<string, string> = {},
  json: object = {},
) {
  return fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ messages, ...json }),
  })
}

const finish = (id: string, json: object = {}) =>
  service.json<RecordedRollout & { error: { code: string } }>(`/v1/preview/rollouts/${id}/finish`, { json })
const get = async (id: string) => (await service.json<RecordedRollout>(`/v1/preview/rollouts/${id}`)).body

interface Group {
  readonly trajectories: { readonly reward: number; readonly metadata: { readonly task: string } }[]
  readonly exceptions: { readonly type: string }[]
  readonly metadata: object
}
async function groupsOf(run: string): Promise<Group[]> {
  const text = await (await service.fetch(`/v1/preview/rollout-groups?run=${run}`)).text()
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Group)
}

describe('a token', () => {
  it('opens its rollout, with any key or none, and ends with it', async () => {
    const rollout = await open()
    expect((await chat(rollout)).status).toBe(200)
    expect((await finish(rollout.id)).body).toMatchObject({ status: 'finished' })
    const after = await chat(rollout)
    expect([after.status, await after.text()]).toEqual([401, expect.stringContaining('invalid_rollout_token')])
  })

  it('is no key of anything else', async () => {
    const { api_key: token } = await open()
    for (const path of ['/v1/models', '/v1/preview/rollouts', '/v1/preview/models']) {
      expect((await service.fetch(path, { headers: { authorization: `Bearer ${token}` } })).status).toBe(401)
    }
    const stranger = await fetch(`${service.url}/r/${token.slice(0, -1)}x/v1/models`)
    expect(stranger.status).toBe(401)
  })

  it('is in no log', async () => {
    const rollout = await open()
    await chat(rollout)
    await fetch(`${rollout.base_url}/nothing/here`)
    await until(
      async () => (lines.some((line) => line.includes('/nothing/here')) ? true : null),
      'the request is logged',
    )
    expect(lines.join('')).not.toContain(rollout.api_key)
  })

  it('opens nothing that is stored', async () => {
    const rollout = await open()
    const response = await fetch(`${rollout.base_url}/responses`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ input: 'hi', previous_response_id: 'resp_1' }),
    })
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining('previous_response_id')])
  })

  it('is worth nothing once the key that made it is revoked', async () => {
    const { id, key } = await service.createKey({ entity: 'local', scope: 'write' })
    const headers = { authorization: `Bearer ${key}` }
    const json = { model: MODEL }
    const { body } = await service.json<CreatedRollout>('/v1/preview/rollouts', { json, headers })
    expect((await chat(body)).status).toBe(200)
    await service.fetch(`/v1/preview/keys/${id}`, { method: 'DELETE' })
    expect((await chat(body)).status).toBe(401)
  })
})

describe('tenants', () => {
  it('see their own rollouts alone', async () => {
    const rollout = await open({ run: 'ours' })
    await chat(rollout)
    const { key } = await service.createKey({ entity: 'others', scope: 'write' })
    const headers = { authorization: `Bearer ${key}` }
    expect((await service.fetch(`/v1/preview/rollouts/${rollout.id}`, { headers })).status).toBe(404)
    expect((await service.fetch(`/v1/preview/rollouts/${rollout.id}/finish`, { json: {}, headers })).status).toBe(404)
    await finish(rollout.id)
    expect(await groupsOf('ours')).toHaveLength(1)
    expect(await (await service.fetch('/v1/preview/rollout-groups?run=ours', { headers })).text()).toBe('')
  })

  it('a key that may read makes none', async () => {
    const { key } = await service.createKey({ entity: 'local', scope: 'read' })
    const headers = { authorization: `Bearer ${key}` }
    expect((await service.fetch('/v1/preview/rollouts', { json: { model: MODEL }, headers })).status).toBe(403)
  })
})

describe('sessions', () => {
  it('are a rollout each, by their header, and end one by one', async () => {
    const address = await open({ sessions: true, run: 'many' })
    const without = await chat(address)
    expect([without.status, await without.text()]).toEqual([400, expect.stringContaining('X-Session-ID')])
    await Promise.all(['a', 'b', 'a', 'c'].map((session) => chat(address, { 'x-session-id': session })))
    const ended = await finish(address.id, {
      session: 'a',
      task: 't',
      group: '1',
      rewards: { right: { score: 2, weight: 0.5 } },
    })
    expect(ended.body).toMatchObject({ status: 'finished', session: 'a', task: 't', turns: 2, reward: 1 })
    await finish(address.id, { session: 'b', task: 't', group: '1', error: { type: 'env_error', message: 'broken' } })
    expect((await finish(address.id, { session: 'z' })).status).toBe(404)
    // what nobody ended ends with its address, as an exception
    await finish(address.id)
    const groups = await groupsOf('many')
    expect(
      groups.map(({ trajectories, exceptions }) => [trajectories.length, exceptions.map(({ type }) => type)]),
    ).toEqual([
      [1, ['env_error']],
      [0, ['not_finished']],
    ])
    expect(groups[0]?.metadata).toMatchObject({ run: 'many', task: 't', group: '1' })
    expect(await chat(address, { 'x-session-id': 'd' })).toMatchObject({ status: 401 })
  })
})

describe('an end', () => {
  it('is said once; the same again means the same', async () => {
    const rollout = await open()
    await chat(rollout)
    const json = { rewards: { task: { score: 1 } } }
    const [first, again] = [await finish(rollout.id, json), await finish(rollout.id, json)]
    expect(again.body).toEqual(first.body)
    expect((await finish(rollout.id, { rewards: {} })).body.error.code).toBe('rollout_ended')
  })

  it('without an answer is an exception', async () => {
    const rollout = await open()
    expect((await finish(rollout.id)).body).toMatchObject({ status: 'failed', error: { type: 'no_recorded_turn' } })
  })

  it('comes by itself: what nobody ended in its time is an exception, what nobody asked is forgotten', async () => {
    const [used, unused] = [await open({ run: 'late', expires_in_seconds: 2 }), await open({ expires_in_seconds: 1 })]
    await chat(used)
    await until(async () => ((await get(used.id)).status === 'expired' ? true : null), 'it expires')
    await until(
      async () => ((await service.fetch(`/v1/preview/rollouts/${unused.id}`)).status === 404 ? true : null),
      'gone',
    )
    expect((await finish(used.id)).body.error.code).toBe('rollout_ended')
    expect(await groupsOf('late')).toMatchObject([{ trajectories: [], exceptions: [{ type: 'rollout_expired' }] }])
  })
})

describe('what stays', () => {
  it('is the newest of an entity, and no call of one that has ended', async () => {
    for (let i = 0; i < 16; i++) {
      const rollout = await open({ run: 'kept' })
      await chat(rollout)
      await finish(rollout.id)
    }
    await until(async () => ((await groupsOf('kept'))[0]?.trajectories.length === 12 ? true : null), 'the oldest go')
    const rows = await service.openRows()
    try {
      const left = await (
        rows.db as never as { selectFrom(t: string): { selectAll(): { execute(): Promise<object[]> } } }
      )
        .selectFrom('recorded_calls')
        .selectAll()
        .execute()
      const open = await service.json<{ data: RecordedRollout[] }>('/v1/preview/rollouts?limit=100')
      const turns = open.body.data.filter(({ status }) => status === 'open').reduce((sum, { turns }) => sum + turns, 0)
      expect(left).toHaveLength(turns)
    } finally {
      await rows.close()
    }
  })

  it('is forgotten when asked', async () => {
    const rollout = await open()
    await chat(rollout)
    await service.fetch(`/v1/preview/rollouts/${rollout.id}`, { method: 'DELETE' })
    expect((await chat(rollout)).status).toBe(401)
  })
})
