/**
 * Rows of fine-tuning jobs: each stands beside the training job that does the work.
 */
import type { Selectable } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, toPage } from '#service/storage/paging.js'
import { readObject } from '#service/storage/row-values.js'
import { type FineTuningJobsTable, fineTuningTables } from './tables.js'

export interface FineTuningRecord {
  readonly jobId: string
  readonly entity: string
  readonly project: string
  readonly requestDigest: string
  readonly request: JsonObject
  readonly trainedName: string
  readonly hyperparameters: JsonObject
  readonly trainedTokens: number | null
  /** The result file that was made; it may have been deleted since. */
  readonly resultFileId: string | null
  readonly createdAtMs: number
}

type Owner = { readonly entity: string; readonly project: string | null }

export async function insertFineTuningJob(
  db: Database,
  job: Omit<FineTuningRecord, 'trainedTokens' | 'resultFileId' | 'createdAtMs'>,
): Promise<void> {
  await fineTuningTables(db)
    .insertInto('fine_tuning_jobs')
    .values({
      job_id: job.jobId,
      entity: job.entity,
      project: job.project,
      request_digest: job.requestDigest,
      request: JSON.stringify(job.request),
      trained_name: job.trainedName,
      hyperparameters: JSON.stringify(job.hyperparameters),
      trained_tokens: null,
      result_file_id: null,
      created_at_ms: databaseNowMs,
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export async function findFineTuningJob(db: Database, owner: Owner, jobId: string): Promise<FineTuningRecord | null> {
  const row = await ownedBy(db, owner).where('job_id', '=', jobId).executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** The newest job made by the same request after `sinceMs` of the database's clock. */
export async function findFineTuningByDigest(
  db: Database,
  owner: Owner,
  repeated: { readonly requestDigest: string; readonly withinMs: number },
): Promise<FineTuningRecord | null> {
  const row = await ownedBy(db, owner)
    .where('request_digest', '=', repeated.requestDigest)
    .where((where) => where('created_at_ms', '>', where(databaseNowMs, '-', repeated.withinMs)))
    .orderBy('job_id', 'desc')
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

/** Newest first. @param options.after id of a training job */
export async function listFineTuningJobs(
  db: Database,
  owner: Owner,
  options: PageOptions,
): Promise<Page<FineTuningRecord>> {
  let query = ownedBy(db, owner)
  if (options.after !== undefined) query = query.where('job_id', '<', options.after)
  const rows = await query
    .orderBy('job_id', 'desc')
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toRecord)
}

/** Notes what was counted when a job had ended. @returns whether nobody noted it before */
export async function setResult(
  db: Database,
  jobId: string,
  result: { readonly trainedTokens: number; readonly resultFileId: string },
): Promise<boolean> {
  const job = fineTuningTables(db)
    .updateTable('fine_tuning_jobs')
    .where('job_id', '=', jobId)
    .where('result_file_id', 'is', null)
  const { numUpdatedRows } = await job
    .set({ trained_tokens: result.trainedTokens, result_file_id: result.resultFileId })
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Steps of a model that are what a job was asked for. */
export async function listResultSteps(db: Database, modelId: string): Promise<readonly number[]> {
  const rows = await fineTuningTables(db)
    .selectFrom('fine_tuning_jobs as f')
    .innerJoin('training_jobs as j', 'j.id', 'f.job_id')
    .select('j.step')
    .where('j.model_id', '=', modelId)
    .execute()
  return rows.flatMap(({ step }) => step ?? [])
}

function ownedBy(db: Database, owner: Owner) {
  const query = fineTuningTables(db).selectFrom('fine_tuning_jobs').selectAll().where('entity', '=', owner.entity)
  return owner.project === null ? query : query.where('project', '=', owner.project)
}

function toRecord(row: Selectable<FineTuningJobsTable>): FineTuningRecord {
  return {
    jobId: row.job_id,
    entity: row.entity,
    project: row.project,
    requestDigest: row.request_digest,
    request: readObject(row.request, 'request of a fine-tuning job'),
    trainedName: row.trained_name,
    hyperparameters: readObject(row.hyperparameters, 'hyperparameters of a fine-tuning job'),
    trainedTokens: row.trained_tokens,
    resultFileId: row.result_file_id,
    createdAtMs: row.created_at_ms,
  }
}
