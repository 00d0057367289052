/**
 * Rows of training jobs. Their state changes stand in `jobs/states.ts`; this file reads and inserts.
 */

import type { Selectable } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { JOB_KINDS, JOB_STATUSES, type JobKind, type JobStatus } from '#contract/wire/job-words.js'
import { type Database, databaseNowMs } from './database.js'
import { insertKeptData, type KeptCounts } from './jobs/kept-data.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readObject, readOneOf } from './row-values.js'
import type { TrainingJobsTable } from './schema.js'

export interface JobRecord {
  readonly id: string
  readonly entity: string
  /** The model's. */
  readonly project: string
  readonly modelId: string
  readonly kind: JobKind
  readonly status: JobStatus
  readonly config: JsonObject
  /** Every option it runs with; null for jobs of versions that did not store it. */
  readonly resolvedConfig: JsonObject | null
  /** Parameters of its base model when it was created; null where nobody knew. */
  readonly baseParameters: number | null
  readonly inputSha256: string | null
  readonly validationSha256: string | null
  /** As the worker wrote it, see `contract/wire/training/job-report.ts`; before the job has started its `warnings` at most, or null. */
  readonly report: JsonObject | null
  readonly reportedAtMs: number | null
  readonly requestDigest: string
  readonly sourceUrl: string | null
  readonly attempt: number
  readonly losses: number
  readonly isCancelRequested: boolean
  /** Ends after the gradient step it is in, with a checkpoint. */
  readonly isStopRequested: boolean
  readonly leaseOwner: string | null
  /** Which worker runs it, or ran it last; null before the first, and for jobs of versions that did not store it. */
  readonly worker: JsonObject | null
  /** What computed its resume point, and computes what follows; null while it can begin with any. */
  readonly trainer: string | null
  /** Least memory of a machine that trains it; null where nobody knew. */
  readonly weightBytes: number | null
  readonly leaseExpiresAtMs: number | null
  readonly parentStep: number | null
  readonly step: number | null
  /** Events stored so far. */
  readonly eventCount: number
  readonly gradientSteps: number
  /** Gradient steps announced; null until `training_started`. */
  readonly numSequences: number | null
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

export interface NewJob {
  readonly id: string
  readonly entity: string
  /** The model's. */
  readonly project: string
  /** The project its training time is counted for; null: its own. */
  readonly usageProject: string | null
  readonly modelId: string
  readonly kind: JobKind
  readonly config: JsonObject
  readonly resolvedConfig: JsonObject
  readonly baseParameters: number | null
  readonly weightBytes: number | null
  readonly inputSha256: string
  readonly validationSha256: string | null
  readonly requestDigest: string
  readonly sourceUrl: string | null
  /** Sentences: what is known of its data before it starts. */
  readonly dataNotes: readonly string[]
  /** Whether its rows are kept past its end; default false. */
  readonly keepsData?: boolean
}

export interface JobFilter extends PageOptions {
  readonly entity: string
  readonly project?: string | undefined
  readonly modelId?: string | undefined
  readonly status?: JobStatus | undefined
  readonly kind?: JobKind | undefined
}

/** Inserts a queued job, and what is kept of it. */
export async function insertJob(db: Database, job: NewJob): Promise<JobRecord> {
  const row = await db
    .insertInto('training_jobs')
    .values({
      id: job.id,
      entity: job.entity,
      project: job.project,
      usage_project: job.usageProject,
      model_id: job.modelId,
      kind: job.kind,
      status: 'queued',
      config: JSON.stringify(job.config),
      resolved_config: JSON.stringify(job.resolvedConfig),
      base_parameters: job.baseParameters,
      weight_bytes: job.weightBytes,
      input_sha256: job.inputSha256,
      validation_sha256: job.validationSha256,
      request_digest: job.requestDigest,
      source_url: job.sourceUrl,
      // the worker's own report begins with the same
      report: job.dataNotes.length === 0 ? null : JSON.stringify({ warnings: job.dataNotes }),
      created_at_ms: databaseNowMs,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  if (job.keepsData === true) await insertKeptData(db, job)
  return toJob(row)
}

export async function findJob(db: Database, id: string): Promise<JobRecord | null> {
  const row = await db.selectFrom('training_jobs').selectAll().where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toJob(row)
}

/** The jobs of these ids that there are, by id. */
export async function findJobs(db: Database, ids: readonly string[]): Promise<ReadonlyMap<string, JobRecord>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('training_jobs').selectAll().where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, toJob(row)]))
}

/** Whether a job of a kind made a checkpoint of a model, which may be gone by now. */
export async function countCompletedJobs(db: Database, modelId: string, kind: JobKind): Promise<number> {
  const found = await db
    .selectFrom('training_jobs')
    .select(({ fn }) => fn.countAll<number | string>().as('count'))
    .where('model_id', '=', modelId)
    .where('status', '=', 'completed')
    .where('kind', '=', kind)
    .executeTakeFirst()
  return Number(found?.count ?? 0)
}

/** Jobs of an entity, newest first. */
export async function listJobs(db: Database, filter: JobFilter): Promise<Page<JobRecord>> {
  const rows = await (await selectJobs(db, filter)).selectAll('training_jobs').execute()
  return toPage(rows, filter.limit, toJob)
}

/** The same with what is kept of their data, in one statement; null where nothing is. */
export async function listJobsAndData(
  db: Database,
  filter: JobFilter,
): Promise<Page<{ readonly job: JobRecord; readonly kept: KeptCounts | null }>> {
  const rows = await (await selectJobs(db, filter))
    .leftJoin('kept_training_data as kept', 'kept.job_id', 'training_jobs.id')
    .selectAll('training_jobs')
    .select(['kept.job_id', 'kept.rollouts_sha256', 'kept.group_count', 'kept.trajectory_count'])
    .execute()
  return toPage(rows, filter.limit, (row) => ({
    job: toJob(row),
    kept:
      row.job_id === null
        ? null
        : {
            rolloutsSha256: row.rollouts_sha256,
            groupCount: row.group_count,
            trajectoryCount: row.trajectory_count,
            endedAtMs: row.ended_at_ms,
          },
  }))
}

/** Those of a filter, one more than its limit. */
async function selectJobs(db: Database, filter: JobFilter) {
  let query = db.selectFrom('training_jobs').where('training_jobs.entity', '=', filter.entity)
  if (filter.project !== undefined) query = query.where('training_jobs.project', '=', filter.project)
  if (filter.modelId !== undefined) query = query.where('training_jobs.model_id', '=', canonicalId(filter.modelId))
  if (filter.status !== undefined) query = query.where('training_jobs.status', '=', filter.status)
  if (filter.kind !== undefined) query = query.where('training_jobs.kind', '=', filter.kind)
  if (filter.after !== undefined) {
    const cursor = await findJob(db, filter.after)
    const isOwn = cursor?.entity === filter.entity && (filter.project ?? cursor.project) === cursor.project
    if (!isOwn) throw unknownCursor(filter.after)
    query = query.where('training_jobs.id', '<', filter.after)
  }
  return query.orderBy('training_jobs.id', 'desc').limit(filter.limit + 1)
}

/** Jobs of a model that are queued or running, oldest first. */
export async function listUnfinishedJobs(db: Database, modelId: string | null): Promise<readonly JobRecord[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .selectAll()
    .$if(modelId !== null, (query) => query.where('model_id', '=', modelId ?? ''))
    .where('status', 'in', ['queued', 'running'])
    .orderBy('id')
    .execute()
  return rows.map(toJob)
}

/** What a create asks before it adds a job, at one look: whether the model is there, and how many jobs of the entity wait or run. */
export async function findRoom(
  db: Database,
  { modelId, entity }: Pick<NewJob, 'modelId' | 'entity'>,
): Promise<{ readonly hasModel: boolean; readonly unfinished: number }> {
  const row = await db
    .selectNoFrom((e) => [
      e.exists(e.selectFrom('models').select('id').where('id', '=', canonicalId(modelId))).as('has_model'),
      e
        .selectFrom('training_jobs')
        .select((o) => o.fn.countAll().as('count'))
        .where('entity', '=', entity)
        .where('status', 'in', ['queued', 'running'])
        .as('unfinished'),
    ])
    .executeTakeFirstOrThrow()
  return { hasModel: Boolean(row.has_model), unfinished: Number(row.unfinished) }
}

/** Turns a row into a record. */
export function toJob(row: Selectable<TrainingJobsTable>): JobRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    modelId: row.model_id,
    kind: readOneOf(JOB_KINDS, row.kind, 'kind of a training job'),
    status: readOneOf(JOB_STATUSES, row.status, 'status of a training job'),
    config: readObject(row.config, 'configuration of a training job'),
    resolvedConfig:
      row.resolved_config === null ? null : readObject(row.resolved_config, 'resolved options of a training job'),
    baseParameters: row.base_parameters,
    inputSha256: row.input_sha256,
    validationSha256: row.validation_sha256,
    report: row.report === null ? null : readObject(row.report, 'report of a training job'),
    reportedAtMs: row.reported_at_ms,
    requestDigest: row.request_digest,
    sourceUrl: row.source_url,
    attempt: row.attempt,
    losses: row.losses,
    isCancelRequested: row.is_cancel_requested === 1,
    isStopRequested: row.is_stop_requested === 1,
    leaseOwner: row.lease_owner,
    worker: row.worker === null ? null : readObject(row.worker, 'worker of a training job'),
    trainer: row.trainer,
    weightBytes: row.weight_bytes,
    leaseExpiresAtMs: row.lease_expires_at_ms,
    parentStep: row.parent_step,
    step: row.step,
    eventCount: row.event_count,
    gradientSteps: row.gradient_step_count,
    numSequences: row.num_sequences,
    errorCode: row.error_code,
    errorMessage: row.error_message,
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    endedAtMs: row.ended_at_ms,
  }
}
