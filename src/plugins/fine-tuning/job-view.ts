/**
 * A fine-tuning job as OpenAI's client sees it: the row that keeps its request, and its training job.
 */
import { setImmediate as othersTurn } from 'node:timers/promises'
import { AppError, NotFoundError } from '#base/errors/errors.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { listEvents } from '#service/storage/events.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { type FineTuningRecord, findFineTuningJob, setTrainedTokens } from './storage/jobs.js'
import { fromFineTuningId, toFineTuningJob } from './to-openai.js'
import type { FineTuningJob } from './wire.js'

export type JobView = ReturnType<typeof createJobView>

export function createJobView({ db, clock }: Pick<ServiceContext, 'db' | 'clock'>) {
  async function require(principal: Principal, id: string): Promise<{ record: FineTuningRecord; job: JobRecord }> {
    const jobId = fromFineTuningId(id)
    const record = await findFineTuningJob(db, principal, jobId)
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
    const isDone = job.status === 'completed' && record.trainedTokens === null
    const trainedTokens = isDone ? await countTrainedTokens(job.id) : record.trainedTokens
    return toFineTuningJob({ ...record, trainedTokens }, job, clock.nowMs())
  }

  /** Tokens the job trained on, over all its steps; counted once and remembered. */
  async function countTrainedTokens(jobId: string): Promise<number> {
    let total = 0
    let after: string | undefined
    for (;;) {
      const page = await listEvents(db, jobId, { after, limit: 1000 })
      for (const { data } of page.items) total += Number(data['num_trainable_tokens'] ?? 0)
      after = page.items.at(-1)?.id
      if (!page.hasMore) break
      await othersTurn()
    }
    await setTrainedTokens(db, jobId, total)
    return total
  }

  async function get(principal: Principal, id: string): Promise<FineTuningJob> {
    const { record, job } = await require(principal, id)
    return toWire(record, job)
  }

  return { require, toWire, get }
}
