/**
 * API keys over HTTP and by the command line: made, listed, used, expired, revoked, recovered.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiKey, CreatedKey } from '#contract/wire/access/keys.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { runCli } from '../../../support/service/run-cli.js'

const KEYS = '/v1/preview/keys'
let service: TestService
beforeAll(async () => {
  service = await createTestService()
})
afterAll(() => service.dispose())

const as = (key: string) => ({ authorization: `Bearer ${key}` })
const statusOf = async (key: string, path = '/v1/whoami') => (await service.fetch(path, { headers: as(key) })).status
const create = (json: object, headers = {}) => service.json<CreatedKey>(KEYS, { json, headers })

describe('keys', () => {
  it('are shown once, work at once, and are listed without the key', async () => {
    const { status, body } = await create({ scope: 'write', name: 'ci' })
    expect(status).toBe(200)
    expect(body).toMatchObject({ object: 'api_key', name: 'ci', scope: 'write', project: null, entity: 'local' })
    expect(body).toMatchObject({ expires_at: null, last_used_at: null, is_current: false })
    expect(body.key).toMatch(/^ty_[0-9A-Za-z]{43}$/)
    const whoami = await service.json(`/v1/whoami`, { headers: as(body.key) })
    expect(whoami.body).toMatchObject({ key_id: body.id, scope: 'write', project: null })
    const text = await (await service.fetch(KEYS)).text()
    expect(text).toContain(body.id)
    expect(text).not.toContain(body.key)
    expect((await service.fetch(`${KEYS}/${body.id}`)).headers.get('content-type')).toContain('json')
  })

  it.each(['games/x', 'a:b'])('of project %j, which no project can be called, are refused', async (project) => {
    const refused = { error: { code: 'invalid_name', message: expect.stringMatching(/^project must not contain/) } }
    expect((await create({ scope: 'read', project })).body).toMatchObject(refused)
    const webhook = { url: 'https://example.com/hooks', project }
    expect((await service.json('/v1/preview/webhooks', { json: webhook })).body).toMatchObject(refused)
    const argv = ['keys', 'create', '--data-dir', service.dataDir, '--project', project]
    const { exitCode, stderr } = await runCli(argv, {})
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('project must not contain')])
  })

  it('are listed by project, as webhooks and jobs are; a project that is not the key’s own is forbidden', async () => {
    const { body: games } = await create({ scope: 'admin', project: 'games' })
    const webhook = { url: 'https://example.com/games', project: 'games' }
    await service.json('/v1/preview/webhooks', { json: webhook })
    await service.json('/v1/preview/webhooks', { json: { ...webhook, project: 'other' } })
    for (const path of [KEYS, '/v1/preview/webhooks', '/v1/preview/models', '/v1/preview/training-jobs']) {
      const { body } = await service.json<{ data: { project: string }[] }>(`${path}?project=games`)
      const isRowOfGames = ({ project }: { project?: string }) => project === undefined || project === 'games'
      expect(body.data.every(isRowOfGames), path).toBe(true)
      if (path === KEYS || path.endsWith('webhooks')) expect(body.data).toHaveLength(1)
      const forbidden = await service.json(`${path}?project=other`, { headers: as(games.key) })
      expect([path, forbidden.status]).toEqual([path, 403])
    }
    const jobs = await service.json('/v1/preview/training-jobs?entity=somebody-else')
    expect(jobs.status).toBe(403)
  })

  it('note their last use, and which one asks', async () => {
    const { body } = await create({ scope: 'admin', name: 'noted' })
    await statusOf(body.key)
    for (;;) {
      const list = await service.json<{ data: ApiKey[] }>(`${KEYS}?limit=100`, { headers: as(body.key) })
      const own = list.body.data.find((key) => key.id === body.id)
      expect(list.body.data.filter((key) => key.is_current)).toEqual([own])
      if (own?.last_used_at != null) break
      await sleep(50)
    }
  })

  it('are refused once they have expired', async () => {
    const { body } = await create({ scope: 'read', expires_in_seconds: 3600 })
    expect(await statusOf(body.key)).toBe(200)
    const database = await service.openRows()
    await database.db.updateTable('api_keys').set({ expires_at_ms: 1 }).where('id', '=', body.id).execute()
    await database.close()
    expect(await statusOf(body.key)).toBe(401)
  })

  it('are refused once they are revoked; revoking again is 404', async () => {
    const { body } = await create({ scope: 'read' })
    const revoked = await service.json(`${KEYS}/${body.id}`, { method: 'DELETE' })
    expect(revoked).toEqual({ status: 200, body: { id: body.id, object: 'api_key', deleted: true } })
    expect(await statusOf(body.key)).toBe(401)
    expect((await service.json(`${KEYS}/${body.id}`, { method: 'DELETE' })).status).toBe(404)
  })

  it('are made once per Idempotency-Key: the second time says which key, and never shows it', async () => {
    const headers = { 'idempotency-key': 'one' }
    const first = await create({ scope: 'read', name: 'once' }, headers)
    const again = await service.json<{ error: { code: string; details: { key_id: string } } }>(KEYS, {
      json: { scope: 'read', name: 'once' },
      headers,
    })
    expect([again.status, again.body.error.code]).toEqual([409, 'key_already_created'])
    expect(again.body.error.details.key_id).toBe(first.body.id)
    expect((await create({ scope: 'write' }, headers)).body).toMatchObject({
      error: { code: 'idempotency_key_reused' },
    })
  })

  it.each([
    [{}, 'scope'],
    [{ scope: 'root' }, 'scope'],
    [{ scope: 'read', expires_in_seconds: 0 }, 'expires_in_seconds'],
    [{ scope: 'read', project: '' }, 'project'],
  ])('%j is refused by name', async (json, field) => {
    const { status, body } = await create(json)
    expect(status).toBe(422)
    expect(JSON.stringify(body)).toContain(`"${field}"`)
  })
})

describe('the command line', () => {
  const cli = (argv: readonly string[], key = service.apiKey) =>
    runCli(argv, { fetch, env: { TRAINYARD_URL: service.url, TRAINYARD_API_KEY: key } })

  it('makes, lists and revokes keys through the service', async () => {
    const made = await cli([
      'keys',
      'create',
      'robot',
      '--scope',
      'read',
      '--project',
      'games',
      '--expires',
      '2h',
      '--json',
    ])
    expect(made.exitCode, made.stderr).toBe(0)
    const key = JSON.parse(made.stdout) as CreatedKey
    expect(key).toMatchObject({ name: 'robot', scope: 'read', project: 'games' })
    expect(Date.parse(key.expires_at ?? '') - Date.parse(key.created_at)).toBe(7_200_000)
    expect((await cli(['keys', 'list'])).stdout).toContain('robot\t')
    const refused = await cli(['keys', 'list'], key.key)
    expect([refused.exitCode, refused.stderr]).toEqual([4, expect.stringContaining('scope "read"')])
    const revoked = await cli(['keys', 'revoke', 'robot', '--yes'])
    expect([revoked.exitCode, revoked.stdout]).toEqual([0, 'Revoked 1 key\n'])
    expect(await statusOf(key.key)).toBe(401)
    expect((await cli(['keys', 'revoke', 'robot', '--yes'])).exitCode).toBe(3)
  })

  it('lets nobody be locked out: with every key revoked, the data directory makes another beside the server', async () => {
    const { body } = await service.json<{ data: ApiKey[] }>(`${KEYS}?limit=100`)
    const own = body.data.find((key) => key.is_current)
    for (const key of body.data) if (key !== own) await service.fetch(`${KEYS}/${key.id}`, { method: 'DELETE' })
    await service.fetch(`${KEYS}/${own?.id}`, { method: 'DELETE' })
    expect(await statusOf(service.apiKey)).toBe(401)
    const made = await cli(['keys', 'create', '--local', '-q'], '')
    expect(made.exitCode).toBe(3)
    const database = service.database === null ? [] : ['--database', service.database]
    const recovered = await cli(['keys', 'create', '--data-dir', service.dataDir, ...database, '-q'], '')
    expect(recovered.exitCode, recovered.stderr).toBe(0)
    expect(await statusOf(recovered.stdout.trim(), KEYS)).toBe(200)
  })
})
