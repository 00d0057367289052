/**
 * What happens to a job whose worker is gone: run again from the model's last checkpoint, or fail with an event.
 *
 * Called when a worker process exits, when a lease runs out, and at start for jobs of the previous server process.
 */

import type { IdSource } from '#base/util/ids.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { deleteJobFiles } from '#service/storage/jobs/files.js'
import { listExpiredJobs, listRunningJobs, setJobQueuedAgain } from '#service/storage/jobs/states.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { CANCELLED, endUnsuccessfully } from './outcome.js'

/** Lost workers after which a job fails instead of being run again. */
export const MAX_LOSSES = 3

/**
 * Takes a job from an attempt that will not finish it; does nothing if the job has moved on.
 *
 * @param lost.reason one clause for the event, for example `the worker was killed by SIGKILL`
 * @param lost.isOrderly true when the server itself stopped the worker to shut down: does not count against the job
 * @returns the job's new status, or null if nothing was done
 */
export async function releaseAttempt(
  db: DatabaseHandle,
  ids: IdSource,
  lost: { readonly jobId: string; readonly attempt: number; readonly reason: string; readonly isOrderly: boolean },
): Promise<JobRecord['status'] | null> {
  return db.transaction().execute(async (transaction) => {
    const job = await findJob(transaction, lost.jobId)
    if (job === null || job.status !== 'running' || job.attempt !== lost.attempt) return null
    return release(transaction, ids, job, lost)
  })
}

/** Releases every running job whose lease is over. @returns their ids */
export async function expireLeases(db: DatabaseHandle, ids: IdSource): Promise<readonly string[]> {
  return db.transaction().execute(async (transaction) => {
    const jobs = await listExpiredJobs(transaction)
    for (const job of jobs)
      await release(transaction, ids, job, { reason: 'its worker stopped answering', isOrderly: false })
    return jobs.map((job) => job.id)
  })
}

/** Releases all running jobs: their workers died with the previous server. @returns their ids */
export async function recoverInterrupted(db: DatabaseHandle, ids: IdSource): Promise<readonly string[]> {
  return db.transaction().execute(async (transaction) => {
    const jobs = await listRunningJobs(transaction)
    for (const job of jobs)
      await release(transaction, ids, job, { reason: 'the server stopped while it ran', isOrderly: false })
    return jobs.map((job) => job.id)
  })
}

async function release(
  db: Database,
  ids: IdSource,
  job: JobRecord,
  lost: { readonly reason: string; readonly isOrderly: boolean },
): Promise<JobRecord['status']> {
  if (job.isCancelRequested) {
    await endUnsuccessfully(db, ids, job, CANCELLED)
    return 'cancelled'
  }
  const losses = job.losses + (lost.isOrderly ? 0 : 1)
  if (losses >= MAX_LOSSES) {
    const message = `the training job lost its worker ${losses} times: ${lost.reason}`
    await endUnsuccessfully(db, ids, job, { code: 'worker_lost', message, isCancelled: false })
    return 'failed'
  }
  await setJobQueuedAgain(db, job.id, losses)
  await deleteJobFiles(db, job.id)
  return 'queued'
}
