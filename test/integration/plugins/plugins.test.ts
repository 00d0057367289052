/**
 * A service is the core with the plugins it is given: with none it serves what is the core's, and one more is a manifest.
 */
import { type Generated, type Kysely, sql } from 'kysely'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { NotFoundError } from '#base/errors/errors.js'
import { small } from '#contract/endpoints/bodies.js'
import { endpoints } from '#contract/endpoints/endpoint.js'
import { INSTALLED } from '#plugins/index.js'
import { definePlugin } from '#service/define-plugin.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import { blobColumnsOf } from '#service/storage/upkeep/blob-references.js'
import { hasTable } from '#service/storage/upkeep/catalog.js'
import { listNewestIds } from '#service/storage/upkeep/clock-shift.js'
import { createTestService, type TestService } from '../../support/service/create-test-service.js'

const { bodyThread } = INSTALLED
const MESSAGES = ['user', 'assistant'].map((role) => ({ role, content: role }))

const rows = endpoints({
  'POST /v1/preview/notes': {
    tag: 'Notes',
    origin: 'ours',
    summary: 'Keep a note',
    scope: 'write',
    body: small(z.object({ text: z.string().max(40) })),
    answer: z.object({ id: z.string(), entity: z.string() }),
  },
  'GET /v1/preview/notes/{note_id}': {
    tag: 'Notes',
    origin: 'ours',
    summary: 'Read a note',
    scope: 'read',
    answer: z.object({ text: z.string() }),
    parameters: { note_id: 'Id of a note' },
  },
})
const noteEndpoints = {
  runs: [{ after: 'GET /v1/whoami', rows }],
  sections: [{ name: 'Notes', after: 'Files' }],
} as const

type Tables = { notes: { id: string; text: string; created_at_ms: Generated<number> } }

function noteHandlers({ context: { db, ids } }: PluginService): PluginHandlers<typeof noteEndpoints> {
  const tables = (db as Kysely<object>).withTables<Tables>()
  return {
    'POST /v1/preview/notes': async ({ principal, body }) => {
      const id = ids.uuid()
      await tables
        .insertInto('notes')
        .values({ id, text: (await body()).text })
        .execute()
      return { id, entity: principal.entity }
    },
    'GET /v1/preview/notes/{note_id}': async ({ params }) => {
      const row = await tables.selectFrom('notes').select('text').where('id', '=', params.note_id).executeTakeFirst()
      if (row === undefined) throw new NotFoundError('note_not_found', `note "${params.note_id}" was not found`)
      return row
    },
  }
}

/** A plugin as somebody else would write it. @param load is told when its handlers are loaded */
function notes(load: (service: PluginService) => void) {
  return definePlugin({
    name: 'notes',
    endpoints: async () => noteEndpoints,
    handlers: async (service) => {
      load(service)
      return noteHandlers(service)
    },
    tables: async () => ({
      tables: { notes: { isListedById: true, blobs: ['text'] } },
      migrations: {
        '0099-notes': {
          up: async (db) => {
            const now = sql`(cast(unixepoch('subsec') * 1000 as integer))`
            await db.schema
              .createTable('notes')
              .addColumn('id', 'text', (c) => c.primaryKey())
              .addColumn('text', 'text', (c) => c.notNull())
              .addColumn('created_at_ms', 'bigint', (c) => c.notNull().defaultTo(now))
              .execute()
          },
        },
      },
      postgresMigrations: {},
    }),
  })
}

let service: TestService | null = null
afterEach(async () => {
  await service?.dispose()
  service = null
})

describe('the core without a plugin', () => {
  test.each([
    ['database', { database: 'postgres://me:hunter2@nowhere/x' }],
    ['blob-store', { blobStore: 's3://bucket' }],
  ])('opens no address: %s', async (param, options) => {
    const refusal = createTestService({ installed: { plugins: [], bodyThread }, ...options })
    await expect(refusal).rejects.toMatchObject({
      code: 'invalid_setting',
      param,
      message: expect.stringMatching(/^(?!.*hunter2).*no plugin is loaded that opens addresses/),
    })
  })

  test('makes its tables, serves its endpoints, and nothing else', async () => {
    service = await createTestService({ installed: { plugins: [], bodyThread } })
    expect((await service.json('/v1/preview/models')).status).toBe(200)
    expect((await service.json('/openapi.json')).status).toBe(404)
    expect((await service.json('/graphql', { json: { query: '{viewer{id}}' } })).status).toBe(404)
    const modelId = await service.createModel('alone')
    const large = { model_id: modelId, trajectory_groups: [], note: 'x'.repeat(100_000) }
    // read by the thread, which knows more bodies than this service has
    expect((await service.json('/v1/preview/training-jobs', { json: large })).status).not.toBe(500)
    const address = 'wandb-artifact:///local/p/rows:v0'
    const job = { model_id: modelId, training_data_url: address }
    expect(await service.json('/v1/preview/sft-training-jobs', { json: job })).toMatchObject({
      status: 400,
      body: { error: { code: 'training_data_not_found' } },
    })
    const rows = await service.openRows()
    expect(await hasTable(rows.db, 'wandb_runs')).toBe(false)
    await rows.close()
  })
})

describe('a plugin', () => {
  test('is served, guarded, checked and described, and its rows are kept', async () => {
    let loads = 0
    const plugin = notes(() => {
      loads += 1
    })
    service = await createTestService({ installed: { plugins: [...INSTALLED.plugins, plugin], bodyThread } })
    const reader = await service.createKey({ scope: 'read' })
    const asReader = { headers: { authorization: `Bearer ${reader.key}` } }
    const note = { text: 'hello' }
    expect((await service.json('/v1/preview/notes', { json: note, headers: { authorization: '' } })).status).toBe(401)
    expect((await service.json('/v1/preview/notes', { json: note, ...asReader })).status).toBe(403)
    const { body: document } = await service.json<{ tags: { name: string }[]; paths: object }>('/openapi.json')
    expect(document.tags.map(({ name }) => name).join()).toContain('Webhooks,Notes,Keys and usage')
    expect(Object.keys(document.paths)).toContain('/v1/preview/notes/{note_id}')
    expect(loads, 'handlers that nobody has called').toBe(0)

    expect((await service.json('/v1/preview/notes', { json: { text: 'x'.repeat(41) } })).status).toBe(422)
    const { body: kept } = await service.json<{ id: string; entity: string }>('/v1/preview/notes', { json: note })
    expect(kept.entity).toBe('local')
    expect(await service.json(`/v1/preview/notes/${kept.id}`, asReader)).toMatchObject({ status: 200, body: note })
    expect(await service.json('/v1/preview/notes/none')).toMatchObject({
      status: 404,
      body: { error: { code: 'note_not_found' } },
    })
    expect(loads, 'handlers that were called often').toBe(1)
  })

  test('whose handlers cannot be loaded fails that request, and is tried again by the next', async () => {
    let isBroken = true
    const plugin = notes(() => {
      if (isBroken) throw new Error('its package is damaged')
    })
    service = await createTestService({ installed: { plugins: [plugin], bodyThread } })
    expect((await service.json('/v1/preview/notes/none')).status).toBe(500)
    expect((await service.json('/v1/health')).status).toBe(200)
    isBroken = false
    expect((await service.json('/v1/preview/notes/none')).status).toBe(404)
  })

  test('has its tables looked through with the others, in a transaction too', async () => {
    let seen: PluginService['context']['db'] | null = null
    const plugin = notes(({ context }) => {
      seen = context.db
    })
    service = await createTestService({ installed: { plugins: [plugin], bodyThread } })
    const { body: kept } = await service.json<{ id: string }>('/v1/preview/notes', { json: { text: 'a' } })
    const db = seen as PluginService['context']['db'] | null
    if (db === null) throw new Error('no handler was loaded')
    expect(await listNewestIds(db)).toContain(kept.id)
    const columns = await db.transaction().execute(async (transaction) => blobColumnsOf(transaction))
    expect(columns.map((column) => column.join('.'))).toContain('notes.text')
  })
})

describe('a supply of workers', () => {
  const here = { installed: { plugins: [], bodyThread } }
  const address = 'shed://garden'

  /** Workers of a shed: it says what it was given and when it began. @param heard is told of both */
  const shed = (name: string, heard: (said: string) => void) =>
    definePlugin({
      name,
      workerSupplies: [
        {
          protocol: 'shed:',
          place: 'a shed',
          example: address,
          open: async ({ address: given, tuning, queue }) => {
            heard(`${given} ${JSON.stringify(tuning)}`)
            const kinds = () => [{ trainers: ['onnx'], memoryBytes: null }]
            const start = async () => heard(`wants ${await queue.wanted(() => false)}`)
            return { kinds, notes: () => [], asked: 'somebody goes to the shed', start: () => void start() }
          },
        },
      ],
    })

  test('is opened by the plugin whose addresses those are, begins when the server listens, and is told of', async () => {
    const heard: string[] = []
    const installed = { plugins: [shed('sheds', (said) => heard.push(said))], bodyThread }
    const tuning = { plugins: { sheds: { doors: 2 } } }
    service = await createTestService({ installed, tuning, workers: address, trainWorkers: 0 })
    await vi.waitFor(() => expect(heard).toEqual(['shed://garden {"doors":2}', 'wants 0']), 20_000)
    const data = `data:application/jsonl;base64,${Buffer.from(JSON.stringify({ messages: MESSAGES })).toString('base64')}`
    const job = { model_id: await service.createModel('m'), training_data_url: data }
    const { body } = await service.json<{ id: string }>('/v1/preview/sft-training-jobs', { json: job })
    const { body: waiting } = await service.json<{ warnings: string[] }>(`/v1/preview/training-jobs/${body.id}`)
    expect(waiting.warnings.join()).toContain('somebody goes to the shed')
  })

  test('is refused where no plugin, or another one, has such addresses', async () => {
    await expect(createTestService({ ...here, workers: address })).rejects.toMatchObject({
      code: 'invalid_workers',
      message: '--workers must be left out, as no plugin starts workers, got "shed://garden"',
    })
    await expect(createTestService({ workers: address })).rejects.toMatchObject({
      code: 'invalid_workers',
      message: `--workers must be an address of Ray's dashboard, got "shed://garden"`,
      hint: expect.stringMatching(/^for example ray:/),
    })
    const plugins = ['one', 'two'].map((name) => shed(name, () => undefined))
    await expect(createTestService({ installed: { plugins, bodyThread } })).rejects.toThrow(
      'plugin "two": another plugin starts workers at addresses of "shed:"',
    )
  })
})

describe('an accelerator', () => {
  test('is tried by a plugin, and refused where none tries it', async () => {
    const named = { device: 'cuda', precision: 'f32' } as const
    await expect(createTestService({ ...named, installed: { plugins: [], bodyThread } })).rejects.toMatchObject({
      code: 'device_refused',
      message: 'device cuda cannot be tried: no plugin does it',
    })
    const refused = (problem: string) =>
      ({ device: 'cuda', isTrusted: false, problem, graphs: [], runtime: '' }) as const
    const plugin = definePlugin({
      name: 'trials',
      accelerators: [{ name: 'cuda', prove: async () => refused('cuda is in the shed') }],
    })
    const installed = { plugins: [plugin], bodyThread }
    await expect(createTestService({ ...named, installed })).rejects.toMatchObject({ message: 'cuda is in the shed' })
    service = await createTestService({ device: 'auto', precision: 'f32', installed })
    expect((await service.json('/v1/health')).status).toBe(200)
  })
})
