/**
 * A data directory of an earlier schema opens: counters say what its rows say, nothing is lost, the result has every table and
 * index of a new one.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely, Migrator, SqliteDialect } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { listEvents } from '#service/storage/events.js'
import { listMetrics } from '#service/storage/model-metrics.js'
import { countModelsOf } from '#service/storage/models.js'
import { openSqlite } from '#service/storage/sqlite.js'
import { findJob } from '#service/storage/training-jobs.js'
import { findSplitTotals } from '#service/storage/trajectories.js'
import { MIGRATIONS, openDatabase } from '../../../support/service/with-plugins.js'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-migrations-'))
})
afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 20 }))

const NAMES = Object.keys(MIGRATIONS).sort()

/** A database as the program left it when `last` was its newest migration. */
async function createOld(path: string, last: string, statements: string): Promise<void> {
  const sqlite = openSqlite(path)
  const db = new Kysely<unknown>({ dialect: new SqliteDialect({ database: sqlite }) })
  const known = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= last))
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => known } }).migrateToLatest()
  if (error !== undefined) throw error
  sqlite.exec(statements)
  await db.destroy()
}

/** A checkpoint with the metrics of its job, as the schema of `last` has them. */
const checkpointAt = (last: string): string =>
  last < '0019-model-metrics'
    ? `insert into checkpoints (id, model_id, step, kind, job_id, adapter_digest, metrics)
        values ('c', 'm', 1, 'rl', 'j', 'd', '{"loss/train":0.5}');`
    : `insert into checkpoints (id, model_id, step, kind, job_id, adapter_digest) values ('c', 'm', 1, 'rl', 'j', 'd');
       insert into model_metrics (model_id, step, source, metrics) values ('m', 1, 'job', '{"loss/train":0.5}');`

const ROWS = `
  insert into models (id, entity, project, name, base_model, run_id, step) values ('m', 'local', 'p', 'n', 'b', 'r', 1);
  insert into training_jobs (id, entity, model_id, kind, status, config, request_digest)
    values ('j', 'local', 'm', 'rl', 'completed', '{}', 'x'), ('k', 'local', 'm', 'rl', 'queued', '{}', 'y');
  insert into events (id, job_id, position, type, data) values
    ('e0', 'j', 0, 'training_started', '{"num_sequences":2}'),
    ('e1', 'j', 1, 'gradient_step', '{"loss":1}'), ('e2', 'j', 2, 'gradient_step', '{"loss":2}'),
    ('e3', 'j', 3, 'training_ended', '{"step":1}');
  insert into trajectory_logs (id, model_id, split, step, body_sha256, group_count, trajectory_count, metrics) values
    ('l1', 'm', 'val', 1, 'b1', 1, 1, '{"val/reward":1,"data/step_num_trajectories":1}'),
    ('l2', 'm', 'val', 1, 'b2', 1, 3, '{"val/reward":0,"data/step_num_trajectories":3}');`

describe('a database of an earlier schema', () => {
  test.each(NAMES)('written at %s opens with its rows counted', async (last) => {
    const path = join(directory, 'db.sqlite3')
    await createOld(path, last, ROWS + checkpointAt(last))
    const { db, close } = await openDatabase(path)
    expect((await listEvents(db, 'j', { limit: 10 })).items).toHaveLength(4)
    expect(await countModelsOf(db, 'b')).toBe(1)
    expect((await findCheckpoint(db, 'm', 1))?.metrics).toEqual({ 'loss/train': 0.5 })
    if (last < '0004-counters') {
      expect(await findJob(db, 'j')).toMatchObject({ eventCount: 4, gradientSteps: 2, numSequences: 2 })
      expect(await findJob(db, 'k')).toMatchObject({ eventCount: 0, gradientSteps: 0, numSequences: null })
      expect(await findSplitTotals(db, { modelId: 'm', step: 1, split: 'val' })).toEqual({
        'val/reward': [0.25, 4],
        'val/data/step_num_trajectories': [4, null],
      })
    }
    await close()
  })

  test('keeps what was recorded at a step, also of logs at steps whose checkpoints are gone', async () => {
    const path = join(directory, 'db.sqlite3')
    const rows = `
      update checkpoints set logged_metrics = '{"val/reward":0.1234567890123456}', created_at_ms = 5000;
      update trajectory_logs set created_at_ms = 7000;
      insert into split_metrics (model_id, step, split, totals) values
        ('m', 1, 'val', '{"val/reward":[9,1]}'),
        ('m', 0, 'val', '{"val/reward":[0.30000000000000004,3],"val/data/step_num_trajectories":[3,null]}'),
        ('m', 0, 'test', '{"test/reward":[1e-7,3]}');`
    await createOld(path, '0018-template-kwargs', ROWS + checkpointAt('0018') + rows)
    const { db, close } = await openDatabase(path)
    expect(await listMetrics(db, 'm')).toEqual([
      {
        step: 0,
        source: 'log',
        metrics: { 'val/reward': 0.30000000000000004, 'val/data/step_num_trajectories': 3, 'test/reward': 1e-7 },
        createdAtMs: expect.any(Number),
      },
      { step: 1, source: 'job', metrics: { 'loss/train': 0.5 }, createdAtMs: 5000 },
      { step: 1, source: 'log', metrics: { 'val/reward': 0.1234567890123456 }, createdAtMs: 7000 },
    ])
    await close()
  })

  test('has the tables and indexes of a new one', async () => {
    const old = join(directory, 'old.sqlite3')
    await createOld(old, NAMES[0] ?? '', ROWS + checkpointAt(''))
    const schemaOf = async (path: string) => {
      await (await openDatabase(path)).close()
      const sqlite = openSqlite(path, { readonly: true })
      const rows = sqlite.prepare('select type, name from sqlite_master order by type, name').all()
      sqlite.close()
      return rows
    }
    expect(await schemaOf(old)).toEqual(await schemaOf(join(directory, 'new.sqlite3')))
  })
})
