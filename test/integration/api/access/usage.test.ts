/**
 * Usage: what answers and training cost is counted for the right project and model, survives a kill but for a second, and
 * needs no write per request.
 */

import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createLogger } from '#base/logging/logger.js'
import type { CreatedKey } from '#contract/wire/access/keys.js'
import type { KeyUsageResponse, UsageResponse } from '#contract/wire/access/usage.js'
import { keyUsageResponseSchema, usageResponseSchema } from '#contract/wire/access/usage.js'
import { createUsageService } from '#service/operations/access/usage.js'
import type { OpenDatabase } from '#service/storage/database.js'
import { createTestService, sampleGroup, type TestService } from '../../../support/service/create-test-service.js'
import { openTestDatabase } from '../../../support/service/database-kind.js'
import { runCli } from '../../../support/service/run-cli.js'
import { awayFromMidnight } from '../../../support/until.js'

let service: TestService
beforeAll(async () => {
  // what is counted by day is counted on one
  await awayFromMidnight()
  service = await createTestService()
})
afterAll(() => service.dispose())

const chat = (text: string, headers: Record<string, string> = {}, more: object = {}) =>
  service.json<{ usage: { prompt_tokens: number; completion_tokens: number } }>('/v1/chat/completions', {
    headers,
    json: { messages: [{ role: 'user', content: text }], max_tokens: 4, ...more },
  })
const report = async (query = '') => (await service.json<UsageResponse>(`/v1/usage${query}`)).body

describe('usage', () => {
  it('counts tokens and requests of answers, whole and streamed, for the project of header, key or model', async () => {
    const first = await chat('hello')
    expect(first.status).toBe(200)
    const response = await service.fetch('/v1/chat/completions', {
      json: { messages: [{ role: 'user', content: 'hello' }], max_tokens: 4, stream: true },
      headers: { 'compat-project': 'local/games' },
    })
    await response.text()
    await chat('hello', { 'openai-project': 'chess' })
    const bound = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'read', project: 'bound' } })
    await chat('hello', { authorization: `Bearer ${bound.body.key}` })
    await service.createModel('counted')
    await chat('hello', {}, { model: 'tests/counted' })
    const { data, total, entity, is_truncated } = await report()
    const { prompt_tokens, completion_tokens } = first.body.usage
    const base = { requests: 1, prompt_tokens, cached_tokens: 0, completion_tokens, training_seconds: 0 }
    const model = 'trainyard/tiny-random'
    expect(data.map(({ day, ...row }) => row)).toEqual([
      { project: 'bound', model, ...base },
      { project: 'chess', model, ...base },
      { project: 'default', model, ...base },
      { project: 'games', model, ...base },
      { project: 'tests', model: 'local/tests/counted', ...base },
    ])
    expect(total).toMatchObject({ requests: 5, completion_tokens: 5 * completion_tokens })
    expect([entity, is_truncated]).toEqual(['local', false])
    expect((await report('?project=games')).data).toHaveLength(1)
    expect((await report('?from=2001-01-01&to=2001-01-31')).data).toEqual([])
    const own = await service.json<UsageResponse>('/v1/usage', {
      headers: { authorization: `Bearer ${bound.body.key}` },
    })
    expect(own.body.data.map((row) => row.project)).toEqual(['bound'])
  })

  it('is counted for keys, too: for admins, of a project its keys alone; a revoked key keeps what it used', async () => {
    const made = async (name: string) =>
      (await service.json<CreatedKey>('/v1/preview/keys', { json: { name, scope: 'admin', project: name } })).body
    const [one, two] = [await made('one'), await made('two')]
    const by = (key: CreatedKey) => ({ authorization: `Bearer ${key.key}` })
    const used = (await chat('hello', by(one))).body.usage
    await chat('hello', by(one))
    await chat('hello', by(two))
    const read = async (headers: Record<string, string> = {}) =>
      (await service.json<KeyUsageResponse>('/v1/preview/keys/usage', { headers })).body
    const all = await read()
    expect(keyUsageResponseSchema.parse(all)).toEqual(all)
    const row = { project: 'one', key_id: one.id, name: 'one', key_prefix: one.key_prefix, requests: 2 }
    const tokens = { prompt_tokens: 2 * used.prompt_tokens, completion_tokens: 2 * used.completion_tokens }
    expect(all.data.find(({ key_id: id }) => id === one.id)).toMatchObject({ ...row, ...tokens })
    // what all keys asked for is what was asked for
    expect(all.data.reduce((sum, { requests }) => sum + requests, 0)).toBe((await report()).total.requests)
    expect((await read(by(two))).data.map(({ key_id: id }) => id)).toEqual([two.id])
    await service.fetch(`/v1/preview/keys/${one.id}`, { method: 'DELETE' })
    const gone = (await read()).data.find(({ key_id: id }) => id === one.id)
    expect(gone).toMatchObject({ name: null, key_prefix: null, requests: 2 })
    const reader = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'write' } })
    expect((await service.fetch('/v1/preview/keys/usage', { headers: by(reader.body) })).status).toBe(403)
    const shown = await runCli(['keys', 'usage'], {
      fetch: async (...request) => service.app.fetch(new Request(...request)),
      env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey },
    })
    expect(shown.stdout).toMatch(/^two\t/m)
    expect(shown.stdout).toMatch(/^\(revoked\)\t/m)
  })

  it('of days in the wrong order is refused; without a first day it begins 29 days before the last', async () => {
    const refused = await service.json<{ error: { message: string } }>('/v1/usage?from=2001-02-01&to=2001-01-31')
    expect([refused.status, refused.body.error?.message]).toEqual([
      422,
      'from 2001-02-01 is after to 2001-01-31, expected a day before it',
    ])
    expect(await report('?to=2001-01-31')).toMatchObject({ from: '2001-01-02', to: '2001-01-31', data: [] })
  })

  it('counts every route that answers: one request, also for several prompts', async () => {
    const posts = service.app.routes.filter((route) => route.method === 'POST').map((route) => route.path)
    const bodies: readonly (readonly [string, object])[] = [
      ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 2 }],
      ['/v1/completions', { prompt: ['a', 'b', 'c'], max_tokens: 2 }],
      ['/v1/responses', { input: 'x', max_output_tokens: 16 }],
      ['/v1/messages', { model: 'trainyard/tiny-random', messages: [{ role: 'user', content: 'x' }], max_tokens: 16 }],
    ]
    for (const [path, json] of bodies.filter(([path]) => posts.includes(path))) {
      const project = `at ${path.replaceAll('/', '-')}`
      const answer = await service.fetch(path, { json, headers: { 'compat-project': project } })
      expect(answer.status, await answer.text()).toBe(200)
      const [row] = (await report(`?project=${encodeURIComponent(project)}`)).data
      expect(row, path).toMatchObject({ requests: 1 })
      expect(row?.completion_tokens, path).toBeGreaterThan(1)
    }
  })

  it.each([['a/b/c', 400, 'header Compat-Project must be project or entity/project, got "a/b/c"']])(
    'header "%s" is refused',
    async (header, status, message) => {
      const answer = await service.json<{ error: { message: string } }>('/v1/chat/completions', {
        headers: { 'compat-project': header },
        json: {},
      })
      expect([answer.status, answer.body.error.message]).toEqual([status, message])
    },
  )

  it('counts the project of a foreign team under the own entity and names the team; a bound key names its own project only', async () => {
    const copied = { 'compat-project': 'acme/copied' }
    const json = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 }
    const answer = await service.fetch('/v1/chat/completions', { json, headers: copied })
    expect([answer.status, answer.headers.get('x-trainyard-ignored-fields')]).toEqual([200, 'Compat-Project.acme'])
    await answer.text()
    expect((await report('?project=copied')).data).toMatchObject([{ project: 'copied', requests: 1 }])
    const { body } = await service.json<CreatedKey>('/v1/preview/keys', { json: { scope: 'read', project: 'its-own' } })
    const refused = await service.fetch('/v1/chat/completions', {
      json,
      headers: { ...copied, authorization: `Bearer ${body.key}` },
    })
    expect(refused.status).toBe(403)
    expect(await refused.text()).toContain('project \\"copied\\" is not open to this API key')
  })

  it.each(['?from=yesterday', '?to=2026-02-31', '?project='])('query %s is refused', async (query) => {
    expect((await service.json(`/v1/usage${query}`)).status).toBe(422)
  })

  it('counts the time of training for the model, and for the project of the header', async () => {
    const modelId = await service.createModel('trained')
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      headers: { 'compat-project': 'paid' },
      json: { model_id: modelId, trajectory_groups: [sampleGroup()] },
    })
    await service.waitForJob(body.id)
    const row = (await report('?project=paid')).data[0]
    expect(row).toMatchObject({ model: 'local/tests/trained', requests: 0 })
    expect(row?.training_seconds).toBeGreaterThan(0)
    expect(row?.training_seconds).toBeLessThan(90)
  })

  it('is shown by the command line', async () => {
    const { stdout, stderr, exitCode } = await runCli(['usage'], {
      fetch,
      env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: service.apiKey },
    })
    expect(exitCode, stderr).toBe(0)
    expect(stdout).toMatch(/^\d{4}-\d\d-\d\d\tbound\ttrainyard\/tiny-random\t1\t/m)
    expect(stderr).toMatch(/\d requests, .* of training/)
  })

  it('is still there after a restart', async () => {
    const before = await report()
    service = await service.restart()
    expect(await report()).toEqual(before)
  })
})

describe('a report of many rows', () => {
  it('is in order, counts every row once, and says where it was cut off', async () => {
    const database = await openTestDatabase()
    const usage = createUsageService(database.db, createLogger({ level: 'silent' }))
    const query = { from: '2026-01-01', to: '2026-01-07' }
    const principal = {
      entity: 'local',
      project: null,
      usageProject: null,
      keyId: 'k',
      keyPrefix: 'k',
      sessionId: null,
      scope: 'read',
    } as const
    const report = async () => usageResponseSchema.parse(JSON.parse(await usage.report(principal, query)))
    // days and projects end in the middle of what is read at once
    await sql`insert into usage_days (entity, day, project, model, requests)
      with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < 10000)
      select 'local', '2026-01-0' || (1 + i % 7), 'p' || (i % 3), 'm' || i, i from n`.execute(database.db)
    const whole = await report()
    expect(whole).toMatchObject({ is_truncated: false, total: { requests: (10_000 * 9999) / 2 } })
    const keys = whole.data.map(({ day, project, model }) => `${day} ${project} ${model}`)
    expect(keys).toEqual([...new Set(keys)].sort())
    await database.db
      .insertInto('usage_days')
      .values({ entity: 'local', day: '2026-01-07', project: 'z', model: 'z', requests: 1 })
      .execute()
    const cut = await report()
    expect(cut.is_truncated).toBe(true)
    expect(cut.data).toEqual(whole.data)
    await usage.stop()
    await database.close()
  })
})

describe('counting', () => {
  const key = { entity: 'local', project: 'p', model: 'm' }
  async function* answer() {
    yield { type: 'started', id: 'a', promptTokenIds: [1, 2, 3], cachedTokens: 2, isReasoningOpen: false } as const
    for (;;) {
      const rest = { text: '', logprobs: [], finishReason: null, stopReason: null } as const
      yield { type: 'delta', id: 'a', choice: 0, tokenIds: [7, 8], ...rest } as const
    }
  }
  const rowsOf = ({ db }: OpenDatabase) => db.selectFrom('usage_days').selectAll().execute()

  /** The second after which it writes by itself never passes. */
  function stopClock(): void {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
  }

  it('writes nothing by request: all of a second in one row, and an answer left early as far as it came', async () => {
    stopClock()
    const database = await openTestDatabase()
    const usage = createUsageService(database.db, createLogger({ level: 'silent' }))
    for (let i = 0; i < 3; i += 1) {
      const events = usage.count(answer(), key)
      for (let n = 0; n < 4; n += 1) await events.next()
      await events.return?.()
    }
    expect(await rowsOf(database)).toEqual([])
    await usage.stop()
    expect(await rowsOf(database)).toMatchObject([
      { requests: 3, prompt_tokens: 9, cached_tokens: 6, completion_tokens: 18, training_ms: 0 },
    ])
    await database.close()
  })

  it('is written by itself about a second later: all that a killed server loses', async () => {
    const database = await openTestDatabase()
    const usage = createUsageService(database.db, createLogger({ level: 'silent' }))
    await usage.count(answer(), key).next()
    await expect.poll(() => rowsOf(database), { timeout: 30_000 }).toMatchObject([{ requests: 1, prompt_tokens: 3 }])
    await usage.stop()
    await database.close()
  })

  it('keeps what it could not write', async () => {
    stopClock()
    const database = await openTestDatabase()
    const usage = createUsageService(database.db, createLogger({ level: 'silent' }))
    const events = usage.count(answer(), key)
    await events.next()
    await database.db.schema.alterTable('usage_days').renameTo('away').execute()
    await expect(usage.flush()).rejects.toThrow('usage_days')
    await database.db.schema.alterTable('away').renameTo('usage_days').execute()
    await usage.stop()
    expect(await rowsOf(database)).toMatchObject([{ requests: 1, prompt_tokens: 3 }])
    await database.close()
  })

  it('keeps nobody from ending when it cannot be written', async () => {
    stopClock()
    const database = await openTestDatabase()
    const usage = createUsageService(database.db, createLogger({ level: 'silent' }))
    await usage.count(answer(), key).next()
    await database.db.schema.dropTable('usage_days').execute()
    await expect(usage.stop()).resolves.toBeUndefined()
    await database.close()
  })
})
