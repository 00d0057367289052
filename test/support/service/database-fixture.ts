/**
 * Rows of a small service, and a database as SQL text: how fixtures of schemas are written and read.
 */

import { hashSecret } from '#service/storage/api-keys.js'
import type { DatabaseHandle } from '#service/storage/database.js'
import { openSqlite } from '../../../src/service/storage/sqlite.js'

export const FIXTURE = {
  modelId: '019a0000-0000-7000-8000-000000000001',
  jobId: '019a0000-0000-7000-8000-000000000002',
  waitingId: '019a0000-0000-7000-8000-000000000003',
  key: `ty_${'fixture'.repeat(6)}x`,
  inputSha256: 'a'.repeat(64),
}

const TIME = { created_at_ms: 1_760_000_000_000 }
const digest = (digit: number) => String(digit).repeat(64)

/** One model with a checkpoint, its job, one that waits, a log, a file, a key, and what a key made. */
export async function writeFixtureRows(db: DatabaseHandle): Promise<void> {
  const { modelId, jobId, waitingId, key, inputSha256 } = FIXTURE
  await db
    .insertInto('api_keys')
    .values({ id: 'k', entity: 'local', key_hash: hashSecret(key), key_prefix: key.slice(0, 7), ...TIME })
    .execute()
  const model = { id: modelId, entity: 'local', project: 'games', name: 'chess', base_model: 'trainyard/spark' }
  await db
    .insertInto('models')
    .values({ ...model, run_id: 'r', step: 1, ...TIME })
    .execute()
  const job = { entity: 'local', model_id: modelId, kind: 'rl', config: '{"learning_rate":0.001}', ...TIME }
  const counts = { event_count: 3, gradient_step_count: 1, num_sequences: 1, project: 'games' }
  await db
    .insertInto('training_jobs')
    .values([
      {
        ...job,
        ...counts,
        id: jobId,
        status: 'completed',
        step: 1,
        attempt: 1,
        request_digest: 'x',
        ended_at_ms: 1_760_000_001_000,
      },
    ])
    .execute()
  await db
    .insertInto('training_jobs')
    .values([
      { ...job, id: waitingId, project: 'games', status: 'queued', request_digest: 'y', input_sha256: inputSha256 },
    ])
    .execute()
  const events = ['{"num_sequences":1}', '{"loss":0.5}', '{"step":1}']
  const types = ['training_started', 'gradient_step', 'training_ended']
  await db
    .insertInto('events')
    .values(
      events.map((data, position) => ({
        id: `e${position}`,
        job_id: jobId,
        position,
        type: types[position] ?? '',
        data,
        ...TIME,
      })),
    )
    .execute()
  await db
    .insertInto('checkpoints')
    .values({
      id: 'c',
      model_id: modelId,
      step: 1,
      kind: 'rl',
      job_id: jobId,
      adapter_digest: 'd',
      ...TIME,
    })
    .execute()
  await db
    .insertInto('model_metrics')
    .values({ model_id: modelId, step: 1, source: 'job', metrics: '{"loss/train":0.5}', ...TIME })
    .execute()
  const names = ['adapter_config.json', 'adapter_model.safetensors', 'manifest.json']
  await db
    .insertInto('checkpoint_files')
    .values(names.map((name, i) => ({ checkpoint_id: 'c', name, sha256: digest(i), size_bytes: 10 })))
    .execute()
  await db
    .insertInto('trajectory_logs')
    .values({
      id: 'l',
      model_id: modelId,
      split: 'val',
      step: 1,
      body_sha256: digest(4),
      group_count: 1,
      trajectory_count: 2,
      metrics: '{"val/reward":0.5}',
      ...TIME,
    })
    .execute()
  await db
    .insertInto('files')
    .values({
      id: 'file-1',
      entity: 'local',
      filename: 'rows.jsonl',
      purpose: 'fine-tune',
      artifact: null,
      sha256: digest(5),
      size_bytes: 9,
      ...TIME,
    })
    .execute()
  await db
    .insertInto('idempotency_keys')
    .values({ entity: 'local', scope: 'training-jobs', key: 'once', request_digest: 'x', object_id: jobId, ...TIME })
    .execute()
}

/** Tables with their rows, then indexes and triggers, as SQL statements. */
export function dumpDatabase(path: string): string {
  const sqlite = openSqlite(path, { readonly: true })
  const objects = sqlite
    .prepare(
      "select type, name, sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by type <> 'table', rowid",
    )
    .all() as { type: string; name: string; sql: string }[]
  const lines: string[] = []
  for (const { type, name, sql } of objects) {
    lines.push(`${sql};`)
    if (type !== 'table') continue
    for (const row of sqlite.prepare(`select * from "${name}"`).raw().all() as unknown[][]) {
      lines.push(`insert into "${name}" values (${row.map(literal).join(', ')});`)
    }
  }
  sqlite.close()
  return `${lines.join('\n')}\n`
}

function literal(value: unknown): string {
  return value === null
    ? 'null'
    : typeof value === 'number'
      ? String(value)
      : `'${String(value).replaceAll("'", "''")}'`
}
