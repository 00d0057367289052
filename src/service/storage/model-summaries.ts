/**
 * What lists of models show beside names, read for a whole page at once.
 */
import { sql } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { JOB_KINDS, JOB_STATUSES, type JobKind, type JobStatus } from '#contract/wire/job-words.js'
import type { Database } from './database.js'
import { readObject, readOneOf } from './row-values.js'

/** Of one model. */
export interface CheckpointTotals {
  readonly count: number
  readonly sizeBytes: number
}

/** Checkpoints and their bytes by model; models without any are left out. */
export async function countCheckpoints(
  db: Database,
  modelIds: readonly string[],
): Promise<ReadonlyMap<string, CheckpointTotals>> {
  const rows = await db
    .selectFrom('checkpoints')
    .leftJoin('checkpoint_files', 'checkpoint_files.checkpoint_id', 'checkpoints.id')
    .select((e) => [
      'checkpoints.model_id',
      e.fn.count<number>('checkpoints.id').distinct().as('count'),
      e.fn.sum<number | null>('checkpoint_files.size_bytes').as('size'),
    ])
    .where('checkpoints.model_id', 'in', [...modelIds])
    .groupBy('checkpoints.model_id')
    .execute()
  return new Map(rows.map((row) => [row.model_id, { count: row.count, sizeBytes: row.size ?? 0 }]))
}

export interface JobSketch {
  readonly id: string
  readonly modelId: string
  readonly kind: JobKind
  readonly status: JobStatus
  readonly gradientSteps: number
  readonly numSequences: number | null
}

/** Jobs of models that wait or run: those that run first, then in the order they came. */
export async function listUnfinishedOf(db: Database, modelIds: readonly string[]): Promise<readonly JobSketch[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .select(['id', 'model_id', 'kind', 'status', 'gradient_step_count', 'num_sequences'])
    .where('model_id', 'in', [...modelIds])
    .where('status', 'in', ['queued', 'running'])
    .orderBy('status', 'desc')
    .orderBy('id')
    .execute()
  return rows.map((row) => ({
    id: row.id,
    modelId: row.model_id,
    kind: readOneOf(JOB_KINDS, row.kind, 'kind of a training job'),
    status: readOneOf(JOB_STATUSES, row.status, 'status of a training job'),
    gradientSteps: row.gradient_step_count,
    numSequences: row.num_sequences,
  }))
}

/** What is told of a model's newest job. */
interface NewestJob {
  /** Sentences of its report. */
  readonly warnings: readonly string[]
  /** Every option with its value; null for jobs of before they were noted. */
  readonly options: JsonObject | null
}

/** By model; those without a job are left out. */
export async function findNewestJobs(
  db: Database,
  modelIds: readonly string[],
): Promise<ReadonlyMap<string, NewestJob>> {
  const newest = db
    .selectFrom('training_jobs')
    .select((e) => e.fn.max('id').as('id'))
    .where('model_id', 'in', [...modelIds])
    .groupBy('model_id')
  const rows = await db
    .selectFrom('training_jobs')
    .select(['model_id', 'report', 'resolved_config'])
    .where('id', 'in', newest)
    .execute()
  return new Map(
    rows.map(({ model_id: modelId, report, resolved_config: resolved }) => {
      const warnings = report === null ? null : readObject(report, 'report of a training job')['warnings']
      const options = resolved === null ? null : readObject(resolved, 'resolved options of a training job')
      return [modelId, { warnings: Array.isArray(warnings) ? warnings.map(String) : [], options }] as const
    }),
  )
}

/** How many rows of metrics each model has, and its newest log: when neither changed, nothing of its metrics did. */
export async function findMetricsMarks(
  db: Database,
  modelIds: readonly string[],
): Promise<ReadonlyMap<string, { readonly rows: number; readonly mark: string }>> {
  const rows = await db
    .selectFrom('model_metrics')
    .select((e) => [
      'model_id',
      e.fn.countAll<number>().as('rows'),
      sql<
        string | null
      >`(select max(log.id) from trajectory_logs as log where log.model_id = model_metrics.model_id)`.as('log'),
    ])
    .where('model_id', 'in', [...modelIds])
    .groupBy('model_id')
    .execute()
  return new Map(rows.map((row) => [row.model_id, { rows: row.rows, mark: `${row.rows} ${row.log ?? ''}` }]))
}
