/**
 * The audit log: what is noted and what is not, by whom; who may read it; that it is there before the answer is; what cannot be written.
 */
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { List } from '#contract/wire/list.js'
import { auditTables } from '#plugins/audit/storage/tables.js'
import type { AuditEvent } from '#plugins/audit/wire.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

const DAY_MS = 86_400_000

let folder: string
let file: string
let service: TestService
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  file = join(folder, 'audit.jsonl')
  service = await createTestService({ audit: file })
})
afterAll(async () => {
  await service.dispose()
  await rm(folder, { recursive: true, force: true })
})

const asked = (key: string) => ({ headers: { authorization: `Bearer ${key}` } })
async function read(query = '', init = {}): Promise<readonly AuditEvent[]> {
  const { status, body } = await service.json<List<AuditEvent>>(`/v1/preview/audit${query}`, init)
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data
}
const lines = async (path = file): Promise<AuditEvent[]> =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as AuditEvent)

test('what changes something, hands out a file or signs in is noted before it is answered; what is asked of models is not', async () => {
  const model = await service.createModel('noted')
  expect((await lines()).at(-1)).toMatchObject({ action: 'POST /v1/preview/models', made_id: model })
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob(['{}\n']), 'rows.jsonl')
  const { body: uploaded } = await service.json<{ id: string }>('/v1/files', { method: 'POST', body: form })
  expect((await service.fetch(`/v1/files/${uploaded.id}/content`)).status).toBe(200)
  const messages = [{ role: 'user', content: 'Hi.' }]
  expect(
    (await service.fetch('/v1/chat/completions', { json: { model: 'trainyard/tiny-random', messages } })).status,
  ).toBe(200)
  expect((await service.fetch('/v1/preview/models')).status).toBe(200)
  expect((await service.fetch('/v1/files/file-none', { method: 'DELETE' })).status).toBe(404)
  const { key, id: keyId } = (
    await service.json<{ key: string; id: string }>('/v1/preview/keys', { json: { scope: 'read' } })
  ).body
  const { body: session } = await service.json<{ id: string; token: string }>('/v1/preview/sessions', {
    json: {},
    ...jsonAsked(key),
  })
  expect(
    (await service.fetch(`/v1/preview/sessions/${session.id}`, { method: 'DELETE', ...asked(session.token) })).status,
  ).toBe(200)

  const events = [...(await read('?limit=100'))].reverse()
  expect(events).toEqual(await lines())
  const [first] = events
  expect(first).toMatchObject({ object: 'audit.event', entity: 'local', project: null, error: null, session_id: null })
  expect(first?.client).toMatch(/127\.0\.0\.1$/)
  expect(events.map(({ action, target, made_id: made, error }) => [action, target, made, error])).toEqual([
    ['POST /v1/preview/models', {}, model, null],
    ['POST /v1/files', {}, uploaded.id, null],
    ['GET /v1/files/{file_id}/content', { file_id: uploaded.id }, null, null],
    ['DELETE /v1/files/{file_id}', { file_id: 'file-none' }, null, 'file_not_found'],
    ['POST /v1/preview/keys', {}, keyId, null],
    ['POST /v1/preview/sessions', {}, session.id, null],
    ['DELETE /v1/preview/sessions/{session_id}', { session_id: session.id }, session.id, null],
  ])
  expect(events.at(-1)).toMatchObject({ key_id: keyId, session_id: session.id })
  expect(JSON.stringify(events)).not.toContain(key)
  expect(JSON.stringify(events)).not.toContain(session.token)
})

const jsonAsked = (key: string) => ({ headers: { ...asked(key).headers, 'content-type': 'application/json' } })

test('a code is noted with whose session it begins; one that opens nothing is nobody’s', async () => {
  const { body } = await service.json<{ code: string }>('/v1/preview/sessions/codes', { method: 'POST' })
  const exchange = (code: string) =>
    fetch(`${service.url}/v1/preview/sessions/exchange`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code }),
    })
  const before = (await lines()).length
  expect((await exchange('wrong')).status).toBe(401)
  expect(await lines()).toHaveLength(before)
  const session = (await (await exchange(body.code)).json()) as { id: string; key_id: string }
  expect((await read('?limit=1'))[0]).toMatchObject({
    action: 'POST /v1/preview/sessions/exchange',
    made_id: session.id,
    key_id: session.key_id,
  })
})

test('is read by admins of the entity, paged, and by endpoint and key', async () => {
  const other = await service.createKey({ scope: 'admin', entity: 'other' })
  const writer = await service.createKey({ scope: 'write' })
  expect((await service.fetch('/v1/preview/audit', asked(writer.key))).status).toBe(403)
  const created = await service.fetch('/v1/preview/models', {
    json: { project: 'p', name: 'm', base_model: 'trainyard/tiny-random' },
    ...jsonAsked(other.key),
  })
  expect(created.status).toBe(200)
  const theirs = await read('', asked(other.key))
  expect(theirs.map(({ entity, action }) => [entity, action])).toEqual([['other', 'POST /v1/preview/models']])
  const ours = await read('?limit=100')
  expect(ours.every(({ entity }) => entity === 'local')).toBe(true)
  expect((await service.fetch(`/v1/preview/audit?after=${theirs[0]?.id}`)).status).toBe(422)
  const paged: AuditEvent[] = []
  for (let after = ''; ; ) {
    const { body } = await service.json<List<AuditEvent>>(
      `/v1/preview/audit?limit=2${after === '' ? '' : `&after=${after}`}`,
    )
    paged.push(...body.data)
    after = body.data.at(-1)?.id ?? ''
    if (!body.has_more) break
  }
  expect(paged).toEqual(ours)
  const deleted = await read(`?action=${encodeURIComponent('DELETE /v1/files/{file_id}')}`)
  expect(deleted).toEqual(ours.filter(({ action }) => action === 'DELETE /v1/files/{file_id}'))
  expect(deleted.length).toBeGreaterThan(0)
  const keyId = ours[0]?.key_id ?? ''
  expect(await read(`?limit=100&key_id=${keyId}`)).toEqual(ours.filter(({ key_id: id }) => id === keyId))
})

test('a file may be moved away while it is written; what is older than it is to be kept goes', async () => {
  await rename(file, `${file}.1`)
  await service.createModel('after the move')
  expect(await lines()).toHaveLength(1)
  expect((await lines(`${file}.1`)).length).toBeGreaterThan(5)
  const { db, close } = await service.openRows()
  const [newest, oldest] = [(await read('?limit=1'))[0]?.id, (await read('?limit=100')).at(-1)?.id ?? '']
  await auditTables(db)
    .updateTable('audit_events')
    .set({ created_at_ms: Date.now() - 3 * DAY_MS })
    .where('id', '=', oldest)
    .execute()
  await close()
  service = await service.restart({ audit: 'database', auditKeepMs: 2 * DAY_MS })
  await expect.poll(async () => (await read('?limit=100')).map(({ id }) => id)).not.toContain(oldest)
  expect((await read('?limit=100')).map(({ id }) => id)).toContain(newest)
})

test('without --audit it is refused by name; a place that cannot be written ends the start', async () => {
  const off = await createTestService()
  expect(await off.json('/v1/preview/audit')).toMatchObject({ status: 409, body: { error: { code: 'audit_off' } } })
  await off.dispose()
  await expect(createTestService({ audit: join(folder, 'none', 'audit.jsonl') })).rejects.toMatchObject({
    code: 'file_unwritable',
  })
})
