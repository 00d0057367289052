/**
 * Reads stay cheap however many rows there are: every statement a request runs finds its rows by an index, sorts nothing and
 * counts nothing. Shown by SQLite's own plan of each statement, because a plan does not depend on how busy a machine is;
 * times for 100,000 models and 1,000,000 events are measured by `test/bench/storage.bench.js`.
 */
import { CompiledQuery, SqliteQueryCompiler } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemIds } from '#base/util/ids.js'
import { countOpen, listBatches } from '#plugins/batches/storage/batches.js'
import { fineTuningJobs } from '#plugins/fine-tuning/storage/jobs.js'
import { deleteResponse, findResponse } from '#plugins/responses/storage/stored-responses.js'
import { listArtifactFiles } from '#plugins/wandb/storage/artifacts.js'
import { listHistory, listRunFiles, listRuns } from '#plugins/wandb/storage/runs.js'
import {
  listDeliveries,
  listDue,
  listDueWebhooks,
  listListeners,
  listWebhooks,
} from '#plugins/webhooks/storage/webhooks.js'
import { appendEvents, appendTerminalEvent } from '#service/queue/event-log.js'
import { createJob } from '#service/queue/queue.js'
import { findUsageRow, readUsage, type UsageFilter } from '#service/storage/access/usage-days.js'
import { listApiKeys } from '#service/storage/api-keys.js'
import { listCheckpoints } from '#service/storage/checkpoints.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { countEvents, listEvents } from '#service/storage/events.js'
import { listFiles } from '#service/storage/files.js'
import { forgetIdempotent } from '#service/storage/idempotency.js'
import { findJobByDigest } from '#service/storage/jobs/states.js'
import { countModelsOf, findModelByName, findModelsNamed, listModels } from '#service/storage/models.js'
import { findJob, findRoom, listJobs, listUnfinishedJobs } from '#service/storage/training-jobs.js'
import { findRepeatedLog, findSplitTotals, listTrajectoryLogs } from '#service/storage/trajectories.js'
import { createJobFixture, type JobFixture, ONCE } from '../../../support/service/job-fixture.js'

let fixture: JobFixture
beforeEach(async () => {
  fixture = await createJobFixture()
})
afterEach(() => fixture.close())

/** A statement without `from`, and where one of its columns begins, whose own lines follow. */
const OF_NO_TABLE = /^(SCAN CONSTANT ROW|(CORRELATED )?SCALAR SUBQUERY \d+)$/

/** What SQLite does for each statement `run` sends. */
async function plansOf(run: (db: DatabaseHandle) => Promise<unknown>): Promise<string[]> {
  const compiler = new SqliteQueryCompiler()
  const statements: CompiledQuery[] = []
  const recording = fixture.db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      statements.push(compiler.compileQuery(node, queryId))
      return node
    },
    transformResult: async ({ result }) => result,
  })
  await run(recording)
  const plans: string[] = []
  for (const { sql, parameters } of statements) {
    const explained = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters])
    const { rows } = await fixture.db.executeQuery<{ detail: string }>(explained)
    plans.push(...rows.map((row) => row.detail).filter((detail) => !OF_NO_TABLE.test(detail)))
  }
  expect(statements.length).toBeGreaterThan(0)
  return plans
}

describe('statements of requests', () => {
  const id = systemIds.uuid()
  const page = { entity: 'local', limit: 100 }
  test.each<[string, (db: DatabaseHandle) => Promise<unknown>]>([
    ['models', (db) => listModels(db, page)],
    ['models after a cursor', (db) => listModels(db, { ...page, after: fixture.modelId })],
    ['models of a project', (db) => listModels(db, { ...page, project: 'p' })],
    ['models of a name', (db) => listModels(db, { ...page, name: 'm' })],
    ['models named, for chat', (db) => findModelsNamed(db, { entity: 'local', project: null }, 'm', 10)],
    ['a model by address', (db) => findModelByName(db, 'local', 'p', 'm')],
    ['jobs', (db) => listJobs(db, page)],
    ['jobs of a model', (db) => listJobs(db, { ...page, modelId: id })],
    ['jobs of a state', (db) => listJobs(db, { ...page, status: 'failed' })],
    ['unfinished jobs of a model', (db) => listUnfinishedJobs(db, id)],
    ['what a create asks first', (db) => findRoom(db, { modelId: id, entity: 'local' })],
    ['a job with its progress', (db) => findJob(db, id)],
    ['a repeated create', (db) => findJobByDigest(db, id, 'digest')],
    ['events', (db) => listEvents(db, id, { limit: 100 })],
    ['the position of the next event', (db) => countEvents(db, id)],
    ['checkpoints', (db) => listCheckpoints(db, id, { limit: 100, order: 'desc' })],
    ['logs of a model', (db) => listTrajectoryLogs(db, id, { limit: 100 })],
    ['logs of a split', (db) => listTrajectoryLogs(db, id, { limit: 100, split: 'val' })],
    ['totals of a split', (db) => findSplitTotals(db, { modelId: id, step: 1, split: 'val' })],
    ['models of a base model', (db) => countModelsOf(db, 'b')],
    ['the same of an entity', (db) => countModelsOf(db, 'b', { entity: 'local', project: null })],
    ['keys', (db) => listApiKeys(db, { entity: 'local', project: null }, { limit: 100 })],
    ['files', (db) => listFiles(db, { entity: 'local', project: null }, { limit: 100, order: 'desc' })],
    ['files of a project', (db) => listFiles(db, { entity: 'local', project: 'p' }, { limit: 100, order: 'asc' })],
    ['batches', (db) => listBatches(db, { entity: 'local', project: null }, { limit: 100 })],
    ['batches of a project', (db) => listBatches(db, { entity: 'local', project: 'p' }, { limit: 100 })],
    ['batches of an entity that have not ended', (db) => countOpen(db, 'local')],
    ['fine-tuning jobs', (db) => fineTuningJobs.list(db, { entity: 'local', project: null }, { limit: 100 })],
    ['webhooks', (db) => listWebhooks(db, { entity: 'local', project: null }, { limit: 100 })],
    ['listeners of an event', (db) => listListeners(db, { entity: 'local', project: 'p' }, 'training_job.failed')],
    ['deliveries of a webhook', (db) => listDeliveries(db, id, { limit: 100 })],
    ['deliveries that are due', (db) => listDue(db, id, 8)],
    ['runs of a project', (db) => listRuns(db, { entity: 'local', project: 'p', limit: 100 })],
    ['history of a run', (db) => listHistory(db, id, { afterLine: 5, limit: 100 })],
    ['files of a run', (db) => listRunFiles(db, id)],
    ['files of an artifact', (db) => listArtifactFiles(db, id)],
    ['keys of a deleted model', (db) => forgetIdempotent(db, id)],
  ])('%s are found by an index', async (_, run) => {
    for (const plan of await plansOf(run)) {
      expect(plan).toMatch(/^SEARCH /)
      expect(plan).not.toContain('TEMP B-TREE')
    }
  })
})

test('whose deliveries are due is seen by a look at one row of each webhook, however many wait', async () => {
  const plans = (await plansOf(listDueWebhooks)).join('\n')
  expect(plans).toMatch(
    /SEARCH webhook_deliveries USING COVERING INDEX webhook_deliveries_due_of \(webhook_id=\? AND status=\?\)/,
  )
  expect(plans).not.toMatch(/SCAN webhook_deliveries/)
})

test('a stored response is found by its id or that of an item, not by walking through all of its entity by age', async () => {
  const read = { mostMs: 1000, columns: ['response'] as const }
  for (const owner of [
    { entity: 'local', project: null },
    { entity: 'local', project: 'p' },
  ]) {
    const ofProject = owner.project === null ? '' : ' AND project=?'
    for (const run of [
      (db: DatabaseHandle) => findResponse(db, owner, { responseId: 'r' }, read),
      (db: DatabaseHandle) => deleteResponse(db, owner, 'r'),
    ]) {
      expect((await plansOf(run)).join('\n')).toContain(`(entity=? AND response_id=?${ofProject})`)
    }
    const ofItem = (await plansOf((db) => findResponse(db, owner, { itemId: 'i' }, read))).join('\n')
    expect(ofItem).toMatch(/^SEARCH stored USING INDEX \w+ \(id=\?\)$/m)
    expect(ofItem).toMatch(/^SEARCH stored_response_items USING INDEX \w+ \(item_id=\?\)$/m)
  }
})

test.each<[string, Partial<UsageFilter>]>([
  ['of all days', {}],
  ['from a row on', { since: { day: '2026-01-01', project: 'p', model: 'm' } }],
  ['in front of a row', { before: { day: '2026-01-01', project: 'p', model: 'm' } }],
])('rows of usage %s come from the index in their order, between two bounds', async (_, bounds) => {
  const filter = { entity: 'local', from: '2026-01-01', to: '2026-12-31', ...bounds }
  const range = '(entity=? AND (day,project,model)>(?,?,?) AND (day,project,model)<(?,?,?))'
  for (const run of [readUsage, (db: DatabaseHandle) => findUsageRow(db, filter, 999)]) {
    const plans = (await plansOf((db) => run(db, filter))).join('\n')
    expect(plans).toContain(range)
    expect(plans).not.toContain('TEMP B-TREE')
  }
})

describe('lists with a filter', () => {
  const id = systemIds.uuid()
  const page = { entity: 'local', limit: 100 }
  const project = { ...page, project: 'p' }
  const log = { limit: 100 }
  test.each<[string, readonly string[], (db: DatabaseHandle) => Promise<unknown>]>([
    ['models of a base model', ['base_model'], (db) => listModels(db, { ...page, baseModel: 'b' })],
    ['the same of a project', ['project', 'base_model'], (db) => listModels(db, { ...project, baseModel: 'b' })],
    ['jobs of a state and a project', ['project', 'status'], (db) => listJobs(db, { ...project, status: 'failed' })],
    ['jobs of a model', ['model_id', 'status'], (db) => listJobs(db, { ...page, modelId: id, status: 'failed' })],
    ['logs of a step', ['step'], (db) => listTrajectoryLogs(db, id, { ...log, step: 3 })],
    ['logs of both', ['split', 'step'], (db) => listTrajectoryLogs(db, id, { ...log, split: 'val', step: 3 })],
    [
      'a log sent again',
      ['body_sha256'],
      (db) => findRepeatedLog(db, { modelId: id, split: 'val', bodySha256: 'x' }, 1000),
    ],
    [
      'files of a purpose',
      ['purpose'],
      (db) => listFiles(db, { entity: 'local', project: null }, { limit: 9, order: 'asc', purpose: 'evals' }),
    ],
    [
      'the same of a project',
      ['project', 'purpose'],
      (db) => listFiles(db, { entity: 'local', project: 'p' }, { limit: 9, order: 'asc', purpose: 'evals' }),
    ],
    [
      'fine-tuning jobs of a project',
      ['project'],
      (db) => fineTuningJobs.list(db, { entity: 'local', project: 'p' }, { limit: 9 }),
    ],
  ])('%s: the filter is part of the search, so rows that do not pass it are never read', async (_, columns, run) => {
    for (const plan of await plansOf(run)) {
      expect(plan).not.toContain('TEMP B-TREE')
      for (const column of columns) expect(plan).toContain(`${column}=?`)
    }
  })
})

describe('counters of a job', () => {
  test('say what the events say, whatever is repeated', async () => {
    const { job } = await createJob(fixture.db, fixture.newJob(), ONCE)
    const step = { type: 'gradient_step' as const, data: { loss: 1 } }
    const started = { type: 'training_started' as const, data: { num_sequences: 1500 } }
    const events = [started, ...Array.from({ length: 1200 }, () => step)]
    expect(await appendEvents(fixture.db, systemIds, job.id, { offset: 0, events })).toBe(1201)
    expect(
      await appendEvents(fixture.db, systemIds, job.id, { offset: 1000, events: [...events.slice(1000), step] }),
    ).toBe(1)
    expect(await appendEvents(fixture.db, systemIds, job.id, { offset: 0, events })).toBe(0)
    await appendTerminalEvent(fixture.db, systemIds, job.id, { type: 'training_ended', data: {} })
    expect(await findJob(fixture.db, job.id)).toMatchObject({
      eventCount: 1203,
      gradientSteps: 1201,
      numSequences: 1500,
    })
    const { items } = await listEvents(fixture.db, job.id, { limit: 2000 })
    expect(items.map((event) => event.position)).toEqual(Array.from({ length: 1203 }, (_, i) => i))
  })
})
