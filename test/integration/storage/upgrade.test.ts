/**
 * A data directory of every schema since the first published one, with rows in all its tables: this version opens it, and its API
 * says of everything what it said before.
 *
 * The rows are those of a service of this version; each older database gets what its tables and columns can hold.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely, Migrator, SqliteDialect } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MARK_FILE } from '#service/storage/data-dir.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { createTestService, sampleGroup, type TestService } from '../../support/service/create-test-service.js'
import { MIGRATIONS } from '../../support/service/with-plugins.js'
import { until } from '../../support/until.js'

/** The first schema that was published. */
const FIRST = '0006-keys-and-usage'
const NAMES = Object.keys(MIGRATIONS)
  .sort()
  .filter((name) => name >= FIRST)
const DATABASE = 'trainyard.sqlite3'

let folder: string
let dataDir: string
let apiKey: string
/** What is asked, and the schema that first knew of it. */
let questions: readonly (readonly [path: string, since: string])[]
let answers: ReadonlyMap<string, unknown>

/** A service that has one of everything, closed again. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-upgrade-'))
  dataDir = join(folder, 'newest')
  const service = await createTestService({ dataDir, webhookHosts: ['127.0.0.1:9'] })
  apiKey = service.apiKey
  const post = async <T = { id: string }>(path: string, json: object): Promise<T> => {
    const { status, body } = await service.json<T>(path, { json })
    expect(status, `${path} ${JSON.stringify(body)}`).toBe(200)
    return body
  }
  const webhook = await post('/v1/preview/webhooks', { url: 'http://127.0.0.1:9/hook' })
  const model = await service.createModel('kept')
  const rl = await post('/v1/preview/training-jobs', { model_id: model, trajectory_groups: [sampleGroup()] })
  await service.waitForJob(rl.id)
  const row = JSON.stringify({ messages: ['user', 'assistant'].map((role) => ({ role, content: role })) })
  const form = new FormData()
  form.set('purpose', 'fine-tune')
  form.set('file', new Blob([`${row}\n`]), 'rows.jsonl')
  const file = (await (await service.fetch('/v1/files', { method: 'POST', body: form })).json()) as { id: string }
  const sft = await post('/v1/preview/sft-training-jobs', { model_id: model, training_data_url: file.id })
  await service.waitForJob(sft.id)
  const tuned = await post('/v1/fine_tuning/jobs', { model: 'trainyard/tiny-random', training_file: file.id })
  await service.waitForJob(tuned.id.replace('ftjob-', ''))
  // who reads it makes its result file, which is one of the files
  await service.json(`/v1/fine_tuning/jobs/${tuned.id}`)
  await post(`/v1/preview/models/${model}/log`, { split: 'val', trajectory_groups: [sampleGroup()] })
  const [asked, answer] = ['user', 'assistant'].map((role) => ({ role, content: role }))
  await post(`/v1/preview/models/${model}/marks`, { mark: 'good', messages: [asked], answer })
  const key = await post('/v1/preview/keys', { name: 'reader', scope: 'read', project: 'tests' })
  await post('/v1/preview/sessions', { name: 'a browser', is_kept: true })
  await post('/v1/preview/sessions/codes', {})
  const response = await post('/v1/responses', { input: 'kept' })
  const probe = await post(`/v1/preview/models/${model}/probes`, { messages: [{ role: 'user', content: 'a' }] })
  const probeAnswers = `/v1/preview/models/${model}/probes/${probe.id}/answers`
  await until(async () => {
    const { body } = await service.json<{ data: { status: string }[] }>(probeAnswers)
    return body.data.length === 2 && body.data.every(({ status }) => status === 'answered')
  }, 'answers to a watched prompt')
  await post('/v1/chat/completions', { model: 'kept', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 })
  const mutate = (name: string, input: object, selection: string) =>
    post<{ data: unknown }>('/graphql', {
      query: `mutation M($i: I!) { ${name}(input: $i) ${selection} }`,
      variables: { i: input },
    })
  await mutate(
    'upsertBucket',
    { entityName: 'local', modelName: 'tests', name: 'kept', config: '{"lr":1}' },
    '{ bucket { id } }',
  )
  await post('/files/local/tests/kept/file_stream', {
    files: { 'wandb-history.jsonl': { offset: 0, content: ['{"_step":0,"loss":2}'] } },
  })
  const input = {
    entityName: 'local',
    projectName: 'tests',
    artifactCollectionName: 'rows',
    artifactTypeName: 'dataset',
    digest: 'd',
    metadata: '{"a":1}',
  }
  await mutate('createArtifact', input, '{ artifact { id state } }')
  const runs = await service.json<{ data: { id: string }[] }>(`/v1/preview/models/${model}/runs`)
  expect(runs.body.data).not.toEqual([])
  const at = `/v1/preview/models/${model}`
  const logs = await service.json<{ data: { id: string }[] }>(`${at}/log`)
  const steps = ['adapter_config.json', 'adapter_model.safetensors'].map((name) => `${at}/checkpoints/1/files/${name}`)
  questions = [
    ...['/v1/preview/models', at, `${at}/metrics`, `${at}/checkpoints`, `${at}/checkpoints/1/files`, ...steps],
    ...[
      '/v1/preview/training-jobs',
      ...[rl.id, sft.id].flatMap((id) => [`/v1/preview/training-jobs/${id}`, `/v1/preview/training-jobs/${id}/events`]),
    ],
    ...[`${at}/log`, `${at}/log/${logs.body.data[0]?.id}/groups`, '/v1/files', `/v1/files/${file.id}/content`],
    ...['/v1/preview/keys', `/v1/preview/keys/${key.id}`, '/v1/usage', '/v1/whoami'],
  ].map((path) => [path, FIRST] as const)
  questions = [
    ...questions,
    ...[`${at}/runs`, ...runs.body.data.map(({ id }) => `${at}/runs/${id}/history`)].map(
      (path) => [path, '0008-wandb'] as const,
    ),
    ...['/v1/fine_tuning/jobs', `/v1/fine_tuning/jobs/${tuned.id}`, `/v1/fine_tuning/jobs/${tuned.id}/checkpoints`].map(
      (path) => [path, '0009-fine-tuning'] as const,
    ),
    ...['/v1/preview/webhooks', `/v1/preview/webhooks/${webhook.id}`].map((path) => [path, '0010-webhooks'] as const),
    ['/v1/preview/sessions', '0020-sessions'],
    [`${at}/marks`, '0037-marks'],
    ...[`${at}/probes?steps=0,1,2`, probeAnswers].map((path) => [path, '0038-probes'] as const),
    ['/v1/preview/keys/usage', '0040-usage-by-key'],
    ...['', '/input_items'].map((path) => [`/v1/responses/${response.id}${path}`, '0044-stored-responses'] as const),
  ]
  // deliveries are written at the outbox's next look, not by the job
  const deliveries = `/v1/preview/webhooks/${webhook.id}/deliveries`
  const isDelivering = async () => (await service.json<{ data: unknown[] }>(deliveries)).body.data.length > 0
  await until(isDelivering, 'a delivery')
  await service.close(5000)
  const again = await open(dataDir)
  answers = await ask(again, NAMES.at(-1) ?? '')
  await again.close(5000)
})
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 20 }))

const open = (path: string): Promise<TestService> =>
  createTestService({ dataDir: path, apiKey, webhookHosts: ['127.0.0.1:9'] })

/** Every answer a directory of that schema must have; what only says when somebody asked is left out. */
async function ask(service: TestService, schema: string): Promise<ReadonlyMap<string, unknown>> {
  const found = new Map<string, unknown>()
  for (const [path, since] of questions) {
    if (since > schema) continue
    const response = await service.fetch(path)
    expect(response.status, path).toBe(200)
    const text = await response.text()
    // an older schema has one time for a checkpoint and its metrics
    const constant = text.replaceAll(/"last_used_at":(?:"[^"]*"|\d+|null)|"times":\[[^\]]*\]/g, '')
    // older schemas do not store what a job runs with, nor where, and say nothing that follows from it
    const options = /"resolved_config":(?:null|\{[^{}]*\})|"a learning rate of [^"]*"/g
    const worker = /"worker":(?:null|\{[^{}]*\{[^{}]*\}\})/g
    // nor what it trained on
    const kept = /"(?:data_kept_until|group_count|trajectory_count)":(?:null|\d+|"[^"]*")/g
    found.set(path, constant.replaceAll(options, '').replaceAll(worker, '').replaceAll(kept, ''))
  }
  return found
}

/** Columns of checkpoints that became a table of their own, and where the newest schema has what they held. */
const MOVED_METRICS = (
  [
    ['metrics', 'job'],
    ['logged_metrics', 'log'],
  ] as const
).map(([column, source]) => {
  const place = 'm.model_id = checkpoints.model_id and m.step = checkpoints.step'
  const held = `select m.metrics from newest.model_metrics as m where ${place} and m.source = '${source}'`
  return [`"${column}"`, `coalesce((${held}), '{}')`] as const
})

/** Makes the database of `path` one of an older schema, which holds of the rows what it has tables and columns for. */
async function writeOlder(path: string, schema: string): Promise<void> {
  // as an earlier version leaves it: without the mark
  for (const name of [DATABASE, MARK_FILE]) await rm(join(path, name), { force: true })
  const sqlite = openSqlite(join(path, DATABASE))
  const db = new Kysely<unknown>({ dialect: new SqliteDialect({ database: sqlite }) })
  const migrations = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= schema))
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => migrations } }).migrateToLatest()
  expect(error).toBeUndefined()
  sqlite.pragma('foreign_keys = OFF')
  sqlite.prepare('attach ? as newest').run(join(dataDir, DATABASE))
  const columns = (database: string, table: string) =>
    (sqlite.pragma(`${database}.table_info("${table}")`) as { name: string }[]).map(({ name }) => `"${name}"`)
  const tables = sqlite.prepare("select name from main.sqlite_master where type = 'table'").pluck().all() as string[]
  for (const table of tables) {
    if (table.startsWith('kysely_') || table.startsWith('sqlite_')) continue
    const known = columns('newest', table)
    const kept = columns('main', table).filter((name) => known.includes(name))
    // a table that is no more
    if (known.length === 0) continue
    const moved = table === 'checkpoints' && schema < '0019-model-metrics' ? MOVED_METRICS : []
    // a migration may have put rows of its own into its table
    sqlite.exec(`delete from main."${table}"`)
    const filled = [...kept, ...moved.map(([column]) => column)]
    const values = [...kept, ...moved.map(([, value]) => value)]
    sqlite.exec(`insert into main."${table}" (${filled}) select ${values} from newest."${table}"`)
  }
  await db.destroy()
}

describe('a data directory', () => {
  it.each(NAMES)('of schema %s says of everything what it said', async (schema) => {
    const path = join(folder, schema)
    await cp(dataDir, path, { recursive: true })
    await writeOlder(path, schema)
    const service = await open(path)
    try {
      const found = await ask(service, schema)
      for (const [asked, answer] of found) expect([asked, answer]).toEqual([asked, answers.get(asked)])
      expect(found.size).toBeGreaterThan(15)
      // and it goes on: a create known to the old directory is still known, and a new job runs
      const { body } = await service.json<{ data: { id: string }[] }>('/v1/preview/models')
      const json = { model_id: body.data[0]?.id, trajectory_groups: [sampleGroup([0.5, 0.25])] }
      const job = await service.json<{ id: string }>('/v1/preview/training-jobs', { json })
      expect(await service.waitForJob(job.body.id)).toMatchObject({ status: 'completed', step: 3 })
    } finally {
      await service.close(2000)
    }
  })

  it('has rows in every table that a service at rest fills', async () => {
    const sqlite = openSqlite(join(dataDir, DATABASE), { readonly: true })
    const tables = sqlite.prepare("select name from sqlite_master where type = 'table'").pluck().all() as string[]
    const empty = tables.filter((name) => sqlite.prepare(`select count(*) from "${name}"`).pluck().get() === 0)
    sqlite.close()
    // what is kept only while a job or a check runs or after something was deleted, and what only clients with a loop of their own
    // or wandb's make
    const whileRunning = ['health_probes', 'job_files', 'resume_points', 'servers', 'unnamed_blobs']
    const ofLoops = [
      ...['client_sessions', 'samplers', 'session_files', 'session_requests'],
      ...['session_weight_files', 'session_weights', 'training_sessions'],
      ...['fine_tuning_loops', 'loops', 'loop_events', 'loop_grades', 'loop_steps'],
    ]
    const ofFiles = ['batches', 'batch_pieces', 'evals', 'eval_items', 'eval_runs', 'uploads', 'upload_parts']
    const ofRecords = ['audit_events', 'gateway_calls', 'gateway_routes', 'recorded_rollouts', 'recorded_calls']
    const ofWandb = ['wandb_aliases', 'wandb_artifact_files', 'wandb_run_files']
    // an event of just now may wait for the outbox's next look
    const always = empty.filter((name) => name !== 'webhook_events')
    // models of earlier versions have no rules and notes of their own
    expect(always.sort()).toEqual(
      [...whileRunning, ...ofLoops, ...ofFiles, ...ofRecords, ...ofWandb, 'keep_rules', 'model_notes'].sort(),
    )
  })
})
