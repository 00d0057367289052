/**
 * Rows of checkpoints and of their files. A row exists only in the transaction that ends its job, so a half-made
 * checkpoint cannot be seen.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { JOB_KINDS, type JobKind } from '#contract/wire/job-words.js'
import { type Database, databaseNowMs } from './database.js'
import { findMetrics, type Metrics, putMetrics } from './model-metrics.js'
import { type Page, type PageOptions, unknownCursor } from './paging.js'
import { readObject, readOneOf } from './row-values.js'
import type { CheckpointsTable } from './schema.js'
import { partsOf } from './schema-part.js'

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
  /** What the job recorded, and what was logged at this step since. They are the model's, and outlive the checkpoint. */
  readonly metrics: Metrics
  /** Chat template variables of the chats that it was trained for. */
  readonly templateKwargs: JsonObject
  readonly createdAtMs: number
  readonly files: readonly CheckpointFileRecord[]
}

export type NewCheckpoint = Omit<CheckpointRecord, 'createdAtMs'>

/** What the column says where no job made the checkpoint: it is older than such checkpoints and allows no null. */
const NO_KIND = 'none'

/** Inserts the checkpoint, its files and its job's metrics, and has it answer watched prompts; call inside a transaction. */
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
  await putMetrics(db, { modelId: checkpoint.modelId, step: checkpoint.step, source: 'job' }, checkpoint.metrics)
  for (const part of partsOf(db)) await part.noteStep?.(db, checkpoint.modelId, checkpoint.step)
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
  return row === undefined ? null : ((await toCheckpoints(db, [row]))[0] ?? null)
}

export async function findCheckpointById(db: Database, id: string): Promise<CheckpointRecord | null> {
  const row = await db.selectFrom('checkpoints').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? null : ((await toCheckpoints(db, [row]))[0] ?? null)
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
  const items = await toCheckpoints(db, rows.slice(0, options.limit))
  return { items, hasMore: rows.length > options.limit }
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

let deletions = 0

/** Other whenever a checkpoint has come, or was deleted by this process. */
export async function checkpointsStamp(db: Database): Promise<string> {
  const newest = await db.selectFrom('checkpoints').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return `${newest?.id ?? ''} ${deletions}`
}

/** Deletes the rows at `steps`. @returns how many existed */
export async function deleteCheckpointRows(db: Database, modelId: string, steps: readonly number[]): Promise<number> {
  if (steps.length === 0) return 0
  let deleted = 0
  deletions += 1
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

/** Rows of one model as records. */
async function toCheckpoints(
  db: Database,
  rows: readonly Selectable<CheckpointsTable>[],
): Promise<readonly CheckpointRecord[]> {
  const [first] = rows
  if (first === undefined) return []
  const files = await filesOf(
    db,
    rows.map((row) => row.id),
  )
  const steps = rows.map((row) => row.step)
  const metrics = await findMetrics(db, first.model_id, {
    from: steps.reduce((a, b) => Math.min(a, b)),
    to: steps.reduce((a, b) => Math.max(a, b)),
  })
  return rows.map((row) => ({
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    kind: row.kind === NO_KIND ? null : readOneOf(JOB_KINDS, row.kind, 'kind of a checkpoint'),
    jobId: row.job_id,
    adapterDigest: row.adapter_digest,
    metrics: metrics.get(row.step) ?? {},
    templateKwargs: readObject(row.template_kwargs, 'template variables of a checkpoint'),
    createdAtMs: row.created_at_ms,
    files: files.get(row.id) ?? [],
  }))
}
