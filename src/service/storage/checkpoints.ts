/**
 * Rows of checkpoints and of their files. A row exists only in the transaction that ends its job, so a half-made
 * checkpoint cannot be seen.
 */
import type { JsonObject } from '#base/util/json.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readNumbers, readObject, readOneOf } from './row-values.js'

export interface CheckpointFileRecord {
  readonly name: string
  readonly sha256: string
  readonly sizeBytes: number
}

export interface CheckpointRecord {
  readonly id: string
  readonly modelId: string
  readonly step: number
  /** What kind of job made it, whose optimizer state it holds; null for an adapter from elsewhere, which has none. */
  readonly kind: JobKind | null
  readonly jobId: string
  readonly adapterDigest: string
  /** What the job recorded, and what was logged at this step since. */
  readonly metrics: Readonly<Record<string, number>>
  /** Chat template variables of the chats that it was trained for. */
  readonly templateKwargs: JsonObject
  readonly createdAtMs: number
  readonly files: readonly CheckpointFileRecord[]
}

export type NewCheckpoint = Omit<CheckpointRecord, 'createdAtMs'>

/** What the column says where no job made the checkpoint: it is older than such checkpoints and allows no null. */
const NO_KIND = 'none'

/** Inserts the checkpoint and its files; call inside a transaction. */
export async function insertCheckpoint(db: Database, checkpoint: NewCheckpoint): Promise<void> {
  await db
    .insertInto('checkpoints')
    .values({
      id: checkpoint.id,
      model_id: checkpoint.modelId,
      step: checkpoint.step,
      kind: checkpoint.kind ?? NO_KIND,
      job_id: checkpoint.jobId,
      adapter_digest: checkpoint.adapterDigest,
      metrics: JSON.stringify(checkpoint.metrics),
      template_kwargs: JSON.stringify(checkpoint.templateKwargs),
      created_at_ms: databaseNowMs,
    })
    .execute()
  for (const file of checkpoint.files) {
    await db
      .insertInto('checkpoint_files')
      .values({ checkpoint_id: checkpoint.id, name: file.name, sha256: file.sha256, size_bytes: file.sizeBytes })
      .execute()
  }
}

/** The checkpoint at `step`, or the newest one that still exists for `latest`; null when there is none. */
export async function findCheckpoint(
  db: Database,
  modelId: string,
  step: number | 'latest',
): Promise<CheckpointRecord | null> {
  let query = db.selectFrom('checkpoints').selectAll().where('model_id', '=', modelId)
  if (step !== 'latest') query = query.where('step', '=', step)
  const row = await query.orderBy('step', 'desc').limit(1).executeTakeFirst()
  return row === undefined ? null : toCheckpoint(row, await filesOf(db, [row.id]))
}

export async function findCheckpointById(db: Database, id: string): Promise<CheckpointRecord | null> {
  const row = await db.selectFrom('checkpoints').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : toCheckpoint(row, await filesOf(db, [row.id]))
}

/** Checkpoints of a model by step. */
export async function listCheckpoints(
  db: Database,
  modelId: string,
  options: PageOptions & { readonly order: 'asc' | 'desc' },
): Promise<Page<CheckpointRecord>> {
  let query = db.selectFrom('checkpoints').selectAll().where('model_id', '=', modelId)
  if (options.after !== undefined) {
    const cursor = await db
      .selectFrom('checkpoints')
      .select('step')
      .where('id', '=', options.after)
      .where('model_id', '=', modelId)
      .executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(options.after)
    query = query.where('step', options.order === 'asc' ? '>' : '<', cursor.step)
  }
  const rows = await query
    .orderBy('step', options.order)
    .limit(options.limit + 1)
    .execute()
  const files = await filesOf(
    db,
    rows.map((row) => row.id),
  )
  return toPage(rows, options.limit, (row) => toCheckpoint(row, files))
}

/** Every step of a model, ascending, with the adapter's digest. */
export async function listSteps(
  db: Database,
  modelId: string,
): Promise<readonly { readonly step: number; readonly adapterDigest: string }[]> {
  const rows = await db
    .selectFrom('checkpoints')
    .select(['step', 'adapter_digest'])
    .where('model_id', '=', modelId)
    .orderBy('step')
    .execute()
  return rows.map((row) => ({ step: row.step, adapterDigest: row.adapter_digest }))
}

/** Every step of several models, by model and ascending. */
export async function listStepsOf(
  db: Database,
  modelIds: readonly string[],
): Promise<readonly { readonly modelId: string; readonly step: number; readonly createdAtMs: number }[]> {
  if (modelIds.length === 0) return []
  const rows = await db
    .selectFrom('checkpoints')
    .select(['model_id', 'step', 'created_at_ms'])
    .where('model_id', 'in', [...modelIds])
    .orderBy('model_id')
    .orderBy('step')
    .execute()
  return rows.map((row) => ({ modelId: row.model_id, step: row.step, createdAtMs: row.created_at_ms }))
}

/** Adds to the metrics logged at a checkpoint's step; those its job recorded itself are kept apart and win. */
export async function addLoggedMetrics(
  db: Database,
  id: string,
  metrics: Readonly<Record<string, number>>,
): Promise<void> {
  const row = await db.selectFrom('checkpoints').select('logged_metrics').where('id', '=', id).executeTakeFirst()
  if (row === undefined) return
  const logged = { ...readNumbers(row.logged_metrics, 'logged metrics of a checkpoint'), ...metrics }
  await db
    .updateTable('checkpoints')
    .set({ logged_metrics: JSON.stringify(logged) })
    .where('id', '=', id)
    .execute()
}

/** Deletes the rows at `steps`. @returns how many existed */
export async function deleteCheckpointRows(db: Database, modelId: string, steps: readonly number[]): Promise<number> {
  let deleted = 0
  // in slices: a statement takes a limited number of parameters
  for (let start = 0; start < steps.length; start += 500) {
    const result = await db
      .deleteFrom('checkpoints')
      .where('model_id', '=', modelId)
      .where('step', 'in', steps.slice(start, start + 500))
      .executeTakeFirst()
    deleted += Number(result.numDeletedRows)
  }
  return deleted
}

async function filesOf(
  db: Database,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly CheckpointFileRecord[]>> {
  const files = new Map<string, CheckpointFileRecord[]>()
  if (ids.length === 0) return files
  const rows = await db
    .selectFrom('checkpoint_files')
    .selectAll()
    .where('checkpoint_id', 'in', ids)
    .orderBy('name')
    .execute()
  for (const row of rows) {
    const list = files.get(row.checkpoint_id) ?? []
    list.push({ name: row.name, sha256: row.sha256, sizeBytes: row.size_bytes })
    files.set(row.checkpoint_id, list)
  }
  return files
}

function toCheckpoint(
  row: {
    id: string
    model_id: string
    step: number
    kind: string
    job_id: string
    adapter_digest: string
    metrics: string
    logged_metrics: string
    template_kwargs: string
    created_at_ms: number
  },
  files: ReadonlyMap<string, readonly CheckpointFileRecord[]>,
): CheckpointRecord {
  return {
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    kind: row.kind === NO_KIND ? null : readOneOf(JOB_KINDS, row.kind, 'kind of a checkpoint'),
    jobId: row.job_id,
    adapterDigest: row.adapter_digest,
    metrics: {
      ...readNumbers(row.logged_metrics, 'logged metrics of a checkpoint'),
      ...readNumbers(row.metrics, 'metrics of a checkpoint'),
    },
    templateKwargs: readObject(row.template_kwargs, 'template variables of a checkpoint'),
    createdAtMs: row.created_at_ms,
    files: files.get(row.id) ?? [],
  }
}
