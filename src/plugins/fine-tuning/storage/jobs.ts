/**
 * Rows of fine-tuning jobs that learn from a file's answers: each stands beside the training job that does the work, and goes with it.
 */
import type { Selectable } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { createQueries, fromRequest, type RequestRecord, toRequest } from './requests.js'
import { type FineTuningJobsTable, fineTuningTables } from './tables.js'

export interface FineTuningRecord extends RequestRecord {
  readonly jobId: string
  readonly trainedTokens: number | null
}

const toRecord = (row: Selectable<FineTuningJobsTable>): FineTuningRecord => ({
  ...toRequest(row),
  jobId: row.job_id,
  trainedTokens: row.trained_tokens,
})

export const fineTuningJobs = createQueries(['fine_tuning_jobs', 'job_id'], toRecord)

export async function insertFineTuningJob(
  db: Database,
  job: Omit<FineTuningRecord, 'trainedTokens' | 'resultFileId' | 'createdAtMs'>,
): Promise<void> {
  await fineTuningTables(db)
    .insertInto('fine_tuning_jobs')
    .values({ ...fromRequest(job), job_id: job.jobId, trained_tokens: null })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
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
