/**
 * Rows of fine-tuning jobs that learn from a file's answers: each stands beside the training job that does the work, and goes
 * with it.
 */
import type { Selectable } from 'kysely'
import type { Database } from '#service/storage/database.js'
import { announce } from '#service/storage/schema-part.js'
import { toFineTuningId } from '../fine-tuning-id.js'
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

/** A training job began or ended: an end is announced in OpenAI's words. */
export async function announceJob(db: Database, eventId: string, jobId: string): Promise<void> {
  const row = await fineTuningTables(db)
    .selectFrom('fine_tuning_jobs as f')
    .innerJoin('events', 'events.job_id', 'f.job_id')
    .select(['f.entity', 'f.project', 'events.type', 'events.data'])
    .where('f.job_id', '=', jobId)
    .where('events.id', '=', eventId)
    .executeTakeFirst()
  if (row === undefined || row.type === 'training_started') return
  const { entity, project } = row
  const type = `fine_tuning.job.${row.type === 'training_ended' ? 'succeeded' : failureOf(row.data)}`
  await announce(db, { eventId, type, entity, project, id: toFineTuningId(jobId) })
}

function failureOf(data: string): 'failed' | 'cancelled' {
  const { error_code: code } = JSON.parse(data) as { readonly error_code?: string }
  return code === 'cancelled' || code === 'model_deleted' ? 'cancelled' : 'failed'
}
