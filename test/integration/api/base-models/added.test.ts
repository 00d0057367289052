/**
 * Base models that are added to a running server, from its disk and from a hub on loopback, asked, trained from, and removed.
 */
import { existsSync, symlinkSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { BaseModel } from '#contract/wire/models.js'
import { baseModelListSchema, baseModelSchema } from '#contract/wire/models.js'
import { ensureTinyRandomModel } from '#model/built-in/tiny-random.js'
import { renderConversation } from '#model/text/render.js'
import { loadTextModel } from '#model/text/text-model.js'
import { writeExport } from '../../../support/model/export-fixture.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'
import { type FakeHub, filesOf, startFakeHub } from '../../../support/service/fake-hub.js'

let folder: string
/** A small whole model in the form the hub has them. */
let tiny: string
let hub: FakeHub
let service: TestService

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-test-'))
  tiny = await ensureTinyRandomModel(folder)
})
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 20 }))
beforeEach(async () => {
  hub = await startFakeHub()
  hub.repositories.set('org/tiny', filesOf(tiny))
  service = await start()
})
afterEach(async () => {
  hub.close()
  await service.dispose()
})

const start = (options: { readonly token?: string } = {}): Promise<TestService> =>
  createTestService({ hub: { endpoint: hub.url, ...options }, tuning: { downloadRetryMs: 5 } })
const add = (json: object) => service.json<BaseModel & ErrorBody>('/v1/preview/base-models', { json })
const remove = (name: string) => service.json<ErrorBody>(`/v1/preview/base-models/${name}`, { method: 'DELETE' })
const names = async () => (await service.json<string[]>('/v1/preview/base-models')).body
interface ErrorBody {
  readonly error?: { readonly code: string; readonly message: string }
}

/** Polls until the download is over. */
async function settled(name: string): Promise<BaseModel> {
  for (;;) {
    const { body } = await service.json<BaseModel>(`/v1/preview/base-models/${name}`)
    baseModelSchema.parse(body)
    if (body.status !== 'downloading') return body
    await new Promise((done) => setTimeout(done, 10))
  }
}

async function createModel(name: string, baseModel: string): Promise<{ status: number; id: string }> {
  const json = { project: 'p', name, base_model: baseModel }
  const { status, body } = await service.json<{ id: string }>('/v1/preview/models', { json })
  return { status, id: body.id }
}

describe('from a hub', () => {
  test('is downloaded, checked, served without a restart, and still there after one', async () => {
    const added = await add({ hub: 'org/tiny' })
    expect(added.status, JSON.stringify(added.body)).toBe(202)
    expect(added.body).toMatchObject({ id: 'org/tiny', status: 'downloading', source: 'hub', repository: 'org/tiny' })
    const weights = (await stat(join(tiny, 'model.safetensors'))).size
    const ready = await settled('org/tiny')
    expect(ready).toMatchObject({
      status: 'ready',
      architecture: 'llama',
      context_length: 2048,
      size_bytes: weights,
      precision: 'float32',
      error: null,
      models: 0,
    })
    expect(ready.downloaded_bytes).toBe(ready.total_bytes)
    expect(ready.parameters).toBeGreaterThan(50_000)
    expect(await names()).toEqual(['trainyard/tiny-random', 'org/tiny'])
    expect((await createModel('m', 'org/tiny')).status).toBe(200)
    const chat = { model: 'org/tiny', messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2 }
    expect((await service.json('/v1/chat/completions', { json: chat })).status).toBe(200)
    const later = await service.restart({ hub: { endpoint: 'http://127.0.0.1:1' } })
    expect((await later.json<string[]>('/v1/preview/base-models')).body).toContain('org/tiny')
    const { body } = await later.json('/v1/preview/base-models/details')
    expect(baseModelListSchema.parse(body).data.map((row) => [row.id, row.status, row.source, row.models])).toEqual([
      ['trainyard/tiny-random', 'ready', 'server', 0],
      ['org/tiny', 'ready', 'hub', 1],
    ])
    service = later
  })

  test('a connection that breaks goes on by ranges', async () => {
    hub.faults.cutAfterBytes = 70_000
    await add({ hub: 'org/tiny' })
    expect(await settled('org/tiny')).toMatchObject({ status: 'ready' })
    const ranges = hub.requests.filter(({ path }) => path.endsWith('cdn/org/tiny/model.safetensors'))
    expect(ranges.length).toBeGreaterThan(2)
    // a connection that is cut may lose bytes that were on their way: at most those are asked for again
    const starts = ranges.map(({ range }) => Number(/\d+/.exec(range ?? '0')?.[0]))
    expect(starts[0]).toBe(0)
    expect(starts.at(-1)).toBeGreaterThan(0)
    for (const [i, start] of starts.entries()) {
      if (i > 0) expect(start).toBeGreaterThanOrEqual(starts[i - 1] ?? 0)
    }
  })

  test('a hub without ranges sends the file anew', async () => {
    hub.faults.cutAfterBytes = 70_000
    hub.faults.cutsLeft = 2
    hub.faults.ignoresRanges = true
    await add({ hub: 'org/tiny' })
    expect(await settled('org/tiny')).toMatchObject({ status: 'ready' })
    expect(hub.requests.filter(({ range }) => range !== null).length).toBeGreaterThanOrEqual(2)
  })

  test('a stopped server keeps what it has: the same request goes on', async () => {
    hub.faults.cutAfterBytes = 70_000
    await add({ hub: 'org/tiny' })
    // connections from now on get no answer
    hub.faults.hold = new Promise(() => undefined)
    const later = await service.restart({ hub: { endpoint: hub.url } })
    service = later
    const before = (await later.json<BaseModel>('/v1/preview/base-models/org/tiny')).body
    expect(before).toMatchObject({ status: 'interrupted', source: 'hub' })
    expect(await names()).toEqual(['trainyard/tiny-random'])
    hub.faults.hold = null
    hub.faults.cutAfterBytes = null
    expect((await add({ hub: 'org/tiny' })).status).toBe(202)
    expect(await settled('org/tiny')).toMatchObject({ status: 'ready' })
  })

  test('other bytes than described are never served; asked again they are fetched anew', async () => {
    hub.faults.damaged.add('model.safetensors')
    await add({ hub: 'org/tiny' })
    const bad = await settled('org/tiny')
    expect(bad).toMatchObject({ status: 'interrupted', error: expect.stringContaining('model.safetensors') })
    expect(await names()).toEqual(['trainyard/tiny-random'])
    hub.faults.damaged.clear()
    await add({ hub: 'org/tiny' })
    expect(await settled('org/tiny')).toMatchObject({ status: 'ready', error: null })
  })

  test('its template for tools comes along, and stands in what is exported of it', async () => {
    const templates = {
      default: '{{ messages[0].content }}',
      tool_use: '{{ tools[0].function.name }} {{ messages[0].content }}',
    }
    const files = filesOf(tiny)
    files.set('chat_template.jinja', Buffer.from(templates.default))
    files.set('additional_chat_templates/tool_use.jinja', Buffer.from(templates.tool_use))
    files.set('additional_chat_templates/rag.jinja', Buffer.from('not read'))
    hub.repositories.set('org/tools', files)
    await add({ hub: 'org/tools' })
    expect(await settled('org/tools')).toMatchObject({ status: 'ready', error: null })
    const models = join(service.dataDir, 'base-models')
    const name = (await readdir(models)).find((each) => each.startsWith('org--tools') && !each.endsWith('.json')) ?? ''
    expect(await readdir(join(models, name, 'additional_chat_templates'))).toEqual(['tool_use.jinja'])

    const exported = join(service.dataDir, 'exported')
    await writeExport(exported, { format: 'merged', storage: 'f32', sourcePath: join(models, name) })
    expect(await readdir(exported)).not.toContain('chat_template.jinja')
    const config = JSON.parse(await readFile(join(exported, 'tokenizer_config.json'), 'utf8'))
    expect(config.chat_template).toEqual(Object.entries(templates).map(([key, template]) => ({ name: key, template })))
    const model = await loadTextModel(exported)
    const messages = [{ role: 'user', content: 'words' }]
    const tool = { type: 'function', function: { name: 'weather' } }
    expect(renderConversation(model, { messages }).text).toBe('words')
    expect(renderConversation(model, { messages, tools: [tool] }).text).toBe('weather words')
  })

  test('an unusable model is found out before its weights are fetched, and leaves nothing', async () => {
    const files = filesOf(tiny)
    files.set('config.json', Buffer.from(JSON.stringify({ model_type: 'mamba' })))
    hub.repositories.set('org/strange', files)
    await add({ hub: 'org/strange' })
    expect(await settled('org/strange')).toMatchObject({ status: 'failed', error: expect.stringContaining('mamba') })
    expect(hub.requests.some(({ path }) => path.endsWith('model.safetensors'))).toBe(false)
    expect((await readdir(join(service.dataDir, 'base-models'))).filter((name) => name.includes('strange'))).toEqual([])
    expect((await remove('org/strange')).status).toBe(200)
  })

  test('what the hub refuses is said at once', async () => {
    expect((await add({ hub: 'org/none' })).body.error?.code).toBe('hub_model_not_found')
    hub.repositories.set('org/pickle', new Map([['pytorch_model.bin', Buffer.from('x')]]))
    expect((await add({ hub: 'org/pickle' })).body.error?.code).toBe('hub_model_unusable')
    const two = new Map(['a-Q4_0.gguf', 'a-Q8_0.gguf'].map((name) => [name, Buffer.from('GGUF')] as const))
    hub.repositories.set('org/gguf', two)
    const choice = await add({ hub: 'org/gguf' })
    expect(choice.body.error).toMatchObject({
      code: 'hub_file_required',
      message: expect.stringContaining('a-Q8_0.gguf'),
    })
    expect((await add({ hub: 'org/gguf', file: 'Q5_0' })).body.error?.code).toBe('hub_file_not_found')
    for (const hubName of ['../x', 'a/b/c', 'a b', 'org/../..', '/etc', 'http://127.0.0.1/x']) {
      const { status, body } = await add({ hub: hubName, name: 'n' })
      expect([status, body.error?.code], hubName).toEqual([422, 'invalid_repository'])
    }
    expect(hub.requests.filter(({ path }) => path.startsWith('/cdn'))).toEqual([])
  })

  test('the token goes to the hub alone, and a gate says what to do', async () => {
    hub.faults.requiredToken = 'hf_secret'
    const gated = await add({ hub: 'org/tiny' })
    expect([gated.status, gated.body.error?.code]).toEqual([403, 'hub_model_gated'])
    await service.dispose()
    service = await start({ token: 'hf_secret' })
    await add({ hub: 'org/tiny' })
    expect(await settled('org/tiny')).toMatchObject({ status: 'ready' })
  })

  test.each([
    'http://127.0.0.1:9',
    'http://localhost:9',
    'http://[::1]:9',
    'http://169.254.169.254',
    'file:///etc/passwd',
  ])('a redirect to %s is not followed', async (address) => {
    hub.faults.redirectTo = `${address}/x`
    await add({ hub: 'org/tiny' })
    const end = await settled('org/tiny')
    expect(end).toMatchObject({
      status: 'interrupted',
      error: expect.stringMatching(/is not (a public|an https) address/),
    })
  })

  test('only a key of scope admin may add and remove; every key may look', async () => {
    const key = await service.json<{ key: string }>('/v1/preview/keys', { json: { scope: 'write' } })
    const headers = { authorization: `Bearer ${key.body.key}` }
    const path = '/v1/preview/base-models'
    const codes = [
      (await service.json<ErrorBody>(path, { json: { hub: 'org/tiny' }, headers })).body.error?.code,
      (await service.json<ErrorBody>(`${path}/trainyard/tiny-random`, { method: 'DELETE', headers })).body.error?.code,
    ]
    expect(codes).toEqual(['insufficient_scope', 'insufficient_scope'])
    expect((await service.json(`${path}/details`, { headers })).status).toBe(200)
  })

  test('removing one that is being downloaded ends it and deletes its bytes', async () => {
    hub.faults.hold = new Promise(() => undefined)
    await add({ hub: 'org/tiny' })
    expect((await add({ hub: 'org/tiny' })).body.status).toBe('downloading')
    expect((await remove('org/tiny')).status).toBe(200)
    expect((await remove('org/tiny')).status).toBe(404)
    expect((await readdir(join(service.dataDir, 'base-models'))).filter((name) => name.includes('org'))).toEqual([])
  })
})

describe('from the disk of the server', () => {
  const incoming = () => join(service.dataDir, 'base-models', 'incoming-1')

  test('a link is served, models are created from it, and only then it cannot be removed', async () => {
    symlinkSync(tiny, incoming())
    const added = await add({ name: 'my/model', path: 'incoming-1' })
    expect(added.status, JSON.stringify(added.body)).toBe(200)
    expect(added.body).toMatchObject({ status: 'ready', source: 'local', repository: null, architecture: 'llama' })
    const { id } = await createModel('m', 'my/model')
    const inUse = await remove('my/model')
    expect([inUse.status, inUse.body.error?.code]).toEqual([409, 'base_model_in_use'])
    expect(await names()).toEqual(['trainyard/tiny-random', 'my/model'])
    await service.json(`/v1/preview/models/${id}`, { method: 'DELETE' })
    expect((await remove('my/model')).status).toBe(200)
    expect(await names()).toEqual(['trainyard/tiny-random'])
    expect(existsSync(join(tiny, 'model.safetensors'))).toBe(true)
    expect((await createModel('n', 'my/model')).status).toBe(422)
  })

  test('a folder is taken in; a link whose target goes away says so', async () => {
    await cp(tiny, incoming(), { recursive: true })
    expect((await add({ name: 'copied', path: 'incoming-1' })).status).toBe(200)
    expect(existsSync(incoming())).toBe(false)
    const target = `${folder}-gone`
    await cp(tiny, target, { recursive: true })
    symlinkSync(target, incoming())
    expect((await add({ name: 'linked', path: 'incoming-1' })).status).toBe(200)
    await rm(target, { recursive: true })
    expect(await settled('linked')).toMatchObject({ status: 'failed', error: expect.stringContaining('ENOENT') })
    expect(await settled('copied')).toMatchObject({ status: 'ready' })
  })

  test('nothing outside is read, and what is no model is refused', async () => {
    for (const path of [
      '../trainyard.sqlite3',
      '/etc/passwd',
      'incoming-/x',
      'incoming-..',
      'tiny',
      '.',
      'incoming-',
    ]) {
      const { status, body } = await add({ name: 'x', path })
      expect([422, 404], path).toContain(status)
      expect(['invalid_path', 'path_not_found'], path).toContain(body.error?.code)
    }
    await writeFile(incoming(), 'PK\x03\x04 pickle')
    expect((await add({ name: 'x', path: 'incoming-1' })).body.error?.code).toBe('pickle_refused')
    expect(await names()).toEqual(['trainyard/tiny-random'])
  })

  test('names: taken ones, other letters, addresses of models, unknown fields', async () => {
    symlinkSync(tiny, incoming())
    const path = 'incoming-1'
    const codeOf = async (json: object) => (await add(json)).body.error?.code
    expect(await codeOf({ name: 'Trainyard/Tiny-Random', path })).toBe('base_model_already_exists')
    await createModel('taken', 'trainyard/tiny-random')
    expect(await codeOf({ name: 'taken', path })).toBe('name_taken')
    expect(await codeOf({ name: 'p/taken', path })).toBe('name_taken')
    for (const name of ['a:b', 'a/b/c', '../a', 'details', 'a b', 'a\u202eb']) {
      expect(await codeOf({ name, path }), name).toBe('invalid_name')
    }
    expect(await codeOf({ path })).toBe('invalid_source')
    expect(await codeOf({ name: 'x', hub: 'a/b', path })).toBe('invalid_source')
    expect(await codeOf({ name: 'x' })).toBe('invalid_source')
    expect((await add({ name: 'x', path, extra: 1 })).status).toBe(422)
    expect((await remove('trainyard/tiny-random')).body.error?.code).toBe('base_model_configured')
  })
})
