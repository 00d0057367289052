/**
 * Fencing: what an attempt may still do.
 *
 * Every write of a worker passes `withLease`, inside the same transaction as the write itself: the attempt must be the
 * current one and the job running. A lease that is over by the clock ends an attempt only when `recovery.ts` takes the job
 * from it, in one transaction as well; until then the attempt's next request renews the lease. One place decides, so that a
 * machine that slept through a lease fences nobody, and a worker whose job was taken can change nothing.
 */

import { AppError, ConflictError, NotFoundError } from '#base/errors/errors.js'
import { areEqualHashes, hashSecret } from '#service/storage/api-keys.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { extendLease, findLease } from '#service/storage/jobs/states.js'
import type { JobRecord } from '#service/storage/training-jobs.js'

/** Who a worker says it is. */
export interface AttemptClaim {
  readonly jobId: string
  readonly attempt: number
  readonly token: string
}

/** What an attempt may do: `held` while the job is its own; `completed` when it repeats a completion that succeeded. */
export interface LeasedJob {
  readonly job: JobRecord
  readonly state: 'held' | 'completed'
}

/**
 * Runs `action` in one transaction, if the attempt holds its lease.
 *
 * @throws {NotFoundError} `training_job_not_found`
 * @throws {ConflictError} `stale_attempt` for any other attempt, a job taken from it or an ended job
 * @throws {AppError} `invalid_api_key` for a wrong token
 */
export async function withLease<T>(
  db: DatabaseHandle,
  claim: AttemptClaim,
  action: (transaction: Database, leased: LeasedJob) => Promise<T>,
): Promise<T> {
  return inTransaction(db, async (transaction) => action(transaction, await checkLease(transaction, claim)))
}

/** The check of `withLease` alone, for reads. */
export async function checkLease(db: Database, claim: AttemptClaim): Promise<LeasedJob> {
  const lease = await findLease(db, claim.jobId)
  if (lease === null) {
    throw new NotFoundError('training_job_not_found', `training job "${claim.jobId}" was not found`)
  }
  const { job, tokenHash } = lease
  if (job.attempt !== claim.attempt) throw stale(claim, `attempt ${job.attempt} is the current one`)
  if (tokenHash === null) throw stale(claim, `the job is ${job.status}`)
  if (!areEqualHashes(tokenHash, hashSecret(claim.token))) {
    throw new AppError('authentication', 'invalid_api_key', 'the attempt token is not valid')
  }
  if (job.status === 'completed') return { job, state: 'completed' }
  if (job.status !== 'running') throw stale(claim, `the job is ${job.status}`)
  return { job, state: 'held' }
}

/** Extends the lease. @param progress the worker's counter. @returns whether the worker should stop */
export async function heartbeat(
  db: DatabaseHandle,
  claim: AttemptClaim,
  leaseMs: number,
  progress: number | null = null,
): Promise<Pick<JobRecord, 'isCancelRequested' | 'isStopRequested'>> {
  return withLease(db, claim, async (transaction, { job, state }) => {
    if (state === 'completed') throw stale(claim, 'the job is completed')
    await extendLease(transaction, job.id, leaseMs, { progress })
    return { isCancelRequested: job.isCancelRequested, isStopRequested: job.isStopRequested }
  })
}

/** The error a fenced worker gets. */
export function stale(claim: AttemptClaim, reason: string): ConflictError {
  return new ConflictError('stale_attempt', `attempt ${claim.attempt} may not write to this job: ${reason}`)
}
