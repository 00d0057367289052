/**
 * Sessions of browsers: they stand for a key and never reach further, are stored hashed, end with it, and begin with codes that work once.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CreatedKey } from '#contract/wire/access/keys.js'
import type { CreatedSession, Download, Session, SessionCode } from '#contract/wire/access/sessions.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const SESSIONS = '/v1/preview/sessions'
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const key = async (json: object) => (await service.json<CreatedKey>('/v1/preview/keys', { json })).body
const begin = (token: string, json: object = {}) =>
  service.json<CreatedSession & { error: { code: string } }>(SESSIONS, { headers: bearer(token), json })
const statusOf = async (token: string, path: string) => (await service.fetch(path, { headers: bearer(token) })).status
const hoursUntil = (time: string) => (Date.parse(time) - Date.now()) / 3_600_000

describe('a session', () => {
  it('stands for its key: the same things, the same scope, and no sessions of its own', async () => {
    const { status, body } = await begin(service.apiKey, { name: 'Firefox' })
    expect(status).toBe(200)
    expect(body).toMatchObject({ object: 'session', name: 'Firefox', entity: 'local', scope: 'admin' })
    expect(body.token).toMatch(/^tys_[0-9A-Za-z]{43}$/)
    expect(hoursUntil(body.expires_at)).toBeGreaterThan(11.9)
    expect(hoursUntil(body.expires_at)).toBeLessThan(12.1)
    const who = await service.json('/v1/whoami', { headers: bearer(body.token) })
    expect(who.body).toMatchObject({ key_id: body.key_id, session_id: body.id, scope: 'admin' })
    expect((await service.json('/v1/whoami')).body).toMatchObject({ key_id: body.key_id, session_id: null })
    expect(await statusOf(body.token, '/v1/preview/keys')).toBe(200)
    const another = await begin(body.token)
    expect([another.status, another.body.error.code]).toEqual([403, 'session_in_use'])
    const code = await service.fetch(`${SESSIONS}/codes`, { method: 'POST', headers: bearer(body.token) })
    expect(code.status).toBe(403)
  })

  it('never has more than its key, and may have less', async () => {
    const reader = await key({ scope: 'read', project: 'tests' })
    expect((await begin(reader.key, { scope: 'write' })).status).toBe(403)
    const own = await begin(reader.key)
    expect(own.body).toMatchObject({ scope: 'read', project: 'tests' })
    expect(await statusOf(own.body.token, '/v1/preview/models?project=other')).toBe(403)
    const less = await begin(service.apiKey, { scope: 'read' })
    expect(await statusOf(less.body.token, '/v1/preview/models')).toBe(200)
    expect(await statusOf(less.body.token, '/v1/preview/keys')).toBe(403)
  })

  it('is kept for thirty days when asked for, and never longer than its key', async () => {
    expect(hoursUntil((await begin(service.apiKey, { is_kept: true })).body.expires_at)).toBeGreaterThan(30 * 24 - 1)
    const short = await key({ scope: 'read', expires_in_seconds: 3600 })
    expect(hoursUntil((await begin(short.key, { is_kept: true })).body.expires_at)).toBeLessThan(1.1)
  })

  it('ends when its key is revoked, when it is ended, and when its time is over', async () => {
    const own = await key({ scope: 'write' })
    const [one, two, three] = [await begin(own.key), await begin(own.key), await begin(own.key)]
    const end = await service.json(`${SESSIONS}/${one.body.id}`, { method: 'DELETE', headers: bearer(one.body.token) })
    expect(end.body).toEqual({ id: one.body.id, object: 'session', deleted: true })
    expect(await statusOf(one.body.token, '/v1/whoami')).toBe(401)
    expect(await statusOf(two.body.token, '/v1/whoami')).toBe(200)
    const { db, close } = await service.openRows()
    await db.updateTable('sessions').set({ expires_at_ms: 1 }).where('id', '=', two.body.id).execute()
    // and no token lies where it could be read
    const stored = JSON.stringify(await db.selectFrom('sessions').selectAll().execute())
    expect(stored).toContain(three.body.id)
    expect(stored).not.toContain(three.body.token.slice(4))
    await close()
    expect(await statusOf(two.body.token, '/v1/whoami')).toBe(401)
    await service.fetch(`/v1/preview/keys/${own.id}`, { method: 'DELETE' })
    expect(await statusOf(three.body.token, '/v1/whoami')).toBe(401)
  })

  it('makes keys that end, and they make none that end later', async () => {
    const session = (await begin(service.apiKey)).body
    const make = (token: string, json: object = {}) =>
      service.json<CreatedKey & { error: { code: string; param: string; message: string } }>('/v1/preview/keys', {
        headers: bearer(token),
        json: { scope: 'admin', ...json },
      })
    const made = (await make(session.token)).body
    expect(hoursUntil(made.expires_at ?? '') / 24).toBeCloseTo(30, 1)
    const short = (await make(session.token, { expires_in_seconds: 3600 })).body
    expect(hoursUntil(short.expires_at ?? '')).toBeLessThan(1.01)
    const long = await make(session.token, { expires_in_seconds: 2_592_001 })
    expect([long.status, long.body.error.code, long.body.error.param]).toEqual([
      422,
      'key_life_too_long',
      'expires_in_seconds',
    ])
    expect(long.body.error.message).toContain("at most 2592000, as a browser's session makes it; got 2592001")
    // by what it made
    const heir = (await make(short.key)).body
    expect(Math.abs(Date.parse(heir.expires_at ?? '') - Date.parse(short.expires_at ?? ''))).toBeLessThan(2)
    expect((await make(short.key, { expires_in_seconds: 3601 })).body.error.code).toBe('key_life_too_long')
    expect((await begin(heir.key, { is_kept: true })).body.expires_at).toBe(heir.expires_at)
    expect((await make(service.apiKey)).body.expires_at).toBeNull()
  })

  it('is listed for its key, and for who manages keys; no other key ends it', async () => {
    const [a, b] = [await key({ scope: 'read' }), await key({ scope: 'read' })]
    const session = (await begin(a.key, { name: 'mine' })).body
    const list = async (token: string) =>
      (await service.json<{ data: Session[] }>(`${SESSIONS}?limit=100`, { headers: bearer(token) })).body.data
    expect((await list(session.token)).map(({ id, is_current }) => [id, is_current])).toEqual([[session.id, true]])
    expect(await list(b.key)).toEqual([])
    expect((await list(service.apiKey)).map(({ id }) => id)).toContain(session.id)
    expect(JSON.stringify(await list(service.apiKey))).not.toContain('token')
    const path = `${SESSIONS}/${session.id}`
    expect((await service.fetch(path, { method: 'DELETE', headers: bearer(b.key) })).status).toBe(404)
    expect((await service.fetch(path, { method: 'DELETE' })).status).toBe(200)
  })

  it('survives a restart, and two hundred others of its key do not all stay', async () => {
    const other = await createTestService()
    const first = await other.json<CreatedSession>(SESSIONS, { json: {} })
    const again = await other.restart()
    expect((await again.json('/v1/whoami', { headers: bearer(first.body.token) })).status).toBe(200)
    for (let i = 0; i < 200; i += 1) await again.json(SESSIONS, { json: {} })
    expect((await again.json('/v1/whoami', { headers: bearer(first.body.token) })).status).toBe(401)
    await again.dispose()
  })
})

describe('a code', () => {
  const make = async (token = service.apiKey) =>
    (await service.json<SessionCode>(`${SESSIONS}/codes`, { method: 'POST', headers: bearer(token) })).body
  const exchange = (code: string, on: TestService = service) =>
    on.json<CreatedSession & { error: { code: string; hint: string } }>(`${SESSIONS}/exchange`, {
      // whoever has the code needs no key
      headers: { authorization: '' },
      json: { code, name: 'page', is_kept: true },
    })

  it('begins one session with the scope of the key that made it, once', async () => {
    const reader = await key({ scope: 'read' })
    const made = await make(reader.key)
    expect(made.url).toBe(`${service.url}/ui/#code=${made.code}`)
    expect(hoursUntil(made.expires_at) * 60).toBeGreaterThan(9)
    const { status, body } = await exchange(made.code)
    expect(status).toBe(200)
    expect(body).toMatchObject({ key_id: reader.id, scope: 'read', name: 'page' })
    const again = await exchange(made.code)
    expect([again.status, again.body.error.code]).toEqual([401, 'invalid_code'])
  })

  it('begins one of those that ask at once, also after a restart, and is no ticket', async () => {
    const other = await createTestService()
    const codes = [await other.signInCode(), await other.signInCode(), await other.signInCode()] as string[]
    const again = await other.restart()
    const answers = await Promise.all(Array.from({ length: 4 }, () => exchange(codes[0] ?? '', again)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401])
    // a code is no ticket, and is not used up as one
    expect((await fetch(`${again.url}/v1/files/file-1/content?ticket=${codes[2]}`)).status).toBe(401)
    expect((await exchange(codes[2] ?? '', again)).status).toBe(200)
    const { db, close } = await again.openRows()
    // no code lies where it could be read
    expect(JSON.stringify(await db.selectFrom('one_time_secrets').selectAll().execute())).not.toContain(codes[1])
    await db.updateTable('one_time_secrets').set({ expires_at_ms: 1 }).where('kind', '=', 'sign-in').execute()
    await close()
    expect((await exchange(codes[1] ?? '', again)).status).toBe(401)
    await again.dispose()
  })

  it('is not ended by those that another key asks for, however many', async () => {
    const [early, busy] = [await make((await key({ scope: 'read' })).key), await key({ scope: 'read' })]
    const first = await make(busy.key)
    for (let i = 0; i < 100; i += 1) await make(busy.key)
    expect((await exchange(early.code)).status).toBe(200)
    expect((await exchange(first.code)).status).toBe(401)
  })

  it('is worth nothing once its key is revoked', async () => {
    const gone = await key({ scope: 'admin' })
    const made = await make(gone.key)
    await service.fetch(`/v1/preview/keys/${gone.id}`, { method: 'DELETE' })
    expect((await exchange(made.code)).status).toBe(401)
  })

  it('is made for whoever starts the server, and opens however many wrong ones came from the same address', async () => {
    const other = await createTestService()
    const code = (await other.signInCode()) ?? ''
    const statuses: number[] = []
    for (let i = 0; i < 7; i += 1) statuses.push((await exchange(`wrong ${i}`, other)).status)
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429])
    const refused = await exchange('wrong again', other)
    expect(refused.body.error).toMatchObject({
      code: 'too_many_wrong_codes',
      hint: expect.stringMatching(/^a right code/),
    })
    expect((await exchange(code, other)).body).toMatchObject({ scope: 'admin', entity: 'local' })
    await other.dispose()
  })
})

describe('a download', () => {
  const ticket = (path: string, token = service.apiKey) =>
    service.json<Download & { error: { code: string } }>('/v1/preview/downloads', {
      headers: bearer(token),
      json: { path },
    })
  const upload = async () => {
    const response = await service.fetch('/v1/files?filename=rows', { method: 'POST', body: '{"messages":[]}\n' })
    return ((await response.json()) as { id: string }).id
  }

  it('gives a file once, without a header, to be kept and not shown', async () => {
    const path = `/v1/files/${await upload()}/content`
    const made = await ticket(path)
    expect(made.status).toBe(200)
    expect(new URL(made.body.url).pathname).toBe(path)
    const response = await fetch(made.body.url)
    expect([response.status, await response.text()]).toEqual([200, '{"messages":[]}\n'])
    expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename.*rows$/)
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('x-trainyard-ignored-fields')).toBeNull()
    expect((await fetch(made.body.url)).status).toBe(401)
  })

  it('is for one address, query included, and for what the key may see', async () => {
    const [a, b] = [await upload(), await upload()]
    const made = (await ticket(`/v1/files/${a}/content`)).body.url
    expect((await fetch(made.replace(a, b))).status).toBe(401)
    // a try at another address uses it up
    expect((await fetch(made)).status).toBe(401)
    const model = await service.createModel('files')
    const file = `/v1/preview/models/${model}/checkpoints/0/files/config.json?format=merged&precision=f32`
    const merged = (await ticket(file)).body.url
    expect((await fetch(merged.replace('f32', 'f16'))).status).toBe(401)
    const elsewhere = await key({ scope: 'read', project: 'elsewhere' })
    expect((await fetch((await ticket(file, elsewhere.key)).body.url)).status).toBe(404)
  })

  it('opens nothing but files of this server', async () => {
    const refused = [
      '/v1/preview/models',
      '/v1/whoami',
      '//evil.example/v1/files/x/content',
      'https://evil.example/',
      'x',
    ]
    for (const path of [...refused, '/v1/files/a/b/content', '/wandb/storage', '/v1/files/../whoami']) {
      const { status, body } = await ticket(path)
      expect([status, body.error.code], path).toEqual([422, 'not_downloadable'])
    }
    const made = (await ticket(`/v1/files/${await upload()}/content`)).body.url
    const taken = new URL(made).search
    expect((await fetch(`${service.url}/v1/preview/models${taken}`)).status).toBe(401)
    expect((await fetch(made)).status).toBe(200)
  })

  it('ends with its key', async () => {
    const path = `/v1/files/${await upload()}/content`
    const gone = await key({ scope: 'read' })
    const made = (await ticket(path, gone.key)).body.url
    await service.fetch(`/v1/preview/keys/${gone.id}`, { method: 'DELETE' })
    expect((await fetch(made)).status).toBe(401)
  })
})
