/**
 * A fine-tuning job as OpenAI's client sees it: the row that keeps its request, and its training job.
 */
import { AppError, NotFoundError } from '#base/errors/errors.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { fromFineTuningId } from './fine-tuning-id.js'
import { writeResult } from './result-file.js'
import { type FineTuningRecord, fineTuningJobs } from './storage/jobs.js'
import { toFineTuningJob } from './to-openai.js'
import type { FineTuningJob } from './wire.js'

export type JobView = ReturnType<typeof createJobView>

export function createJobView(context: Pick<ServiceContext, 'db' | 'blobs' | 'clock'>) {
  const { db, clock } = context
  async function require(principal: Principal, id: string): Promise<{ record: FineTuningRecord; job: JobRecord }> {
    const jobId = fromFineTuningId(id)
    const record = await fineTuningJobs.find(db, principal, jobId)
    const job = record === null ? null : await findJob(db, jobId)
    if (record === null || job === null) {
      throw new NotFoundError('fine_tuning_job_not_found', `Could not find fine tune: ${id.slice(0, 100)}`, {
        param: 'fine_tuning_job_id',
      })
    }
    return { record, job }
  }

  async function toWire(record: FineTuningRecord, job: JobRecord | null | undefined): Promise<FineTuningJob> {
    if (job === null || job === undefined)
      throw new AppError('internal', 'internal_error', 'a fine-tuning job has no training job')
    const isNew = job.status === 'completed' && record.resultFileId === null
    const result = isNew ? await writeResult(context, record) : {}
    return toFineTuningJob({ ...record, ...result }, job, clock.nowMs())
  }

  async function get(principal: Principal, id: string): Promise<FineTuningJob> {
    const { record, job } = await require(principal, id)
    return toWire(record, job)
  }

  return { require, toWire, get }
}
