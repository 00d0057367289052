/**
 * Jobs whose worker is lost: they run again, from their resume point or the model's last checkpoint, or fail with an event.
 *
 * Called when a worker process exits, when a lease runs out, and at start for jobs of the previous server process.
 */

import type { IdSource } from '#base/util/ids.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { deleteJobFiles } from '#service/storage/jobs/files.js'
import {
  extendLease,
  listClaimedJobs,
  listExpiredJobs,
  listRunningJobs,
  listStalledJobs,
  setJobQueuedAgain,
} from '#service/storage/jobs/states.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { listServers } from '#service/storage/upkeep/servers.js'
import { CANCELLED, endUnsuccessfully } from './outcome.js'
import { isRemoteOwner, localOwner, REMOTE_OWNER } from './queue.js'

/** Workers lost in a row, without a new event between, after which a job fails instead of being run again. */
export const MAX_LOSSES = 3
/** Pause before the second attempt; each further one waits five times as long. */
export const RESTART_BACKOFF_MS = 2000

/** A loss as it counts against its job. */
export interface LostAttempt {
  readonly jobId: string
  readonly attempt: number
  /** One clause for the job's record, for example `the worker was killed by SIGKILL`. */
  readonly reason: string
  /** True when the server itself stopped: does not count against the job, which runs again at once. */
  readonly isOrderly: boolean
  /** Default `RESTART_BACKOFF_MS`. */
  readonly backoffMs?: number | undefined
  /** Nobody was given it, nor its token: its number is the next attempt's. Default false */
  readonly isUnmade?: boolean
}

/**
 * Takes a job from an attempt that will not finish it; does nothing if the job has moved on.
 *
 * @returns the job's new status, or null if nothing was done
 */
export async function releaseAttempt(
  db: DatabaseHandle,
  ids: IdSource,
  lost: LostAttempt,
): Promise<JobRecord['status'] | null> {
  return inTransaction(db, async (transaction) => {
    const job = await findJob(transaction, lost.jobId)
    if (job === null || job.status !== 'running' || job.attempt !== lost.attempt) return null
    return release(transaction, ids, job, lost)
  })
}

/**
 * Releases every running job whose lease is over, except those whose worker is known to live: their leases start anew.
 *
 * @param local.serverId of several servers this one: a job of another that lives is that one's matter, one of a server that
 *   is gone lost no worker of its own making. Absent: there is one
 * @param local.alive attempts whose process runs; whether they move on is for `attempt-watch.ts` to judge
 * @returns the ids of both
 */
export async function expireLeases(
  db: DatabaseHandle,
  ids: IdSource,
  local: {
    readonly alive: readonly { readonly jobId: string; readonly attempt: number }[]
    readonly leaseMs: number
    readonly serverId?: string | undefined
    /** Whether others had time to renew theirs. Default true */
    readonly mayJudgeOthers?: boolean | undefined
  },
): Promise<{ readonly lost: readonly string[]; readonly renewed: readonly string[] }> {
  return inTransaction(db, async (transaction) => {
    const lost: string[] = []
    const renewed: string[] = []
    const expired = await listExpiredJobs(transaction)
    const servers =
      local.serverId === undefined || expired.length === 0
        ? null
        : new Set((await listServers(transaction)).map(({ id }) => localOwner(id)))
    for (const job of expired) {
      if (local.alive.some(({ jobId, attempt }) => jobId === job.id && attempt === job.attempt)) {
        await extendLease(transaction, job.id, local.leaseMs, { progress: null })
        renewed.push(job.id)
        continue
      }
      const { leaseOwner } = job
      const isOwn = leaseOwner === localOwner(local.serverId ?? '')
      if (!isOwn && local.mayJudgeOthers === false) continue
      const isOfOther = servers !== null && !isRemoteOwner(leaseOwner) && !isOwn
      if (isOfOther && servers.has(leaseOwner ?? '')) continue
      const reason = isOfOther ? 'its server is gone' : 'its worker stopped answering'
      await release(transaction, ids, job, { reason, isOrderly: isOfOther })
      lost.push(job.id)
    }
    return { lost, renewed }
  })
}

/**
 * Releases the running jobs whose workers died with the previous server. Workers on other machines live on: their leases
 * start anew, because nobody could renew them meanwhile.
 *
 * A server among others takes only what it had itself; what others had and have lost, their leases tell.
 *
 * @param shared.earlierId by which this server was known before; null: it was not, or is not known to be gone
 * @param shared.isFirst no other lives: nobody else renewed leases of workers on other machines either
 * @returns the ids of those that were released
 */
export async function recoverInterrupted(
  db: DatabaseHandle,
  ids: IdSource,
  leaseMs: number,
  shared: { readonly earlierId: string | null; readonly isFirst: boolean } | null = null,
): Promise<readonly string[]> {
  const own = shared === null || shared.earlierId === null ? null : localOwner(shared.earlierId)
  return inTransaction(db, async (transaction) => {
    const released: string[] = []
    for (const job of await listRunningJobs(transaction)) {
      if (isRemoteOwner(job.leaseOwner)) {
        if (shared?.isFirst !== false) await extendLease(transaction, job.id, leaseMs, { progress: null })
        continue
      }
      if (shared !== null && job.leaseOwner !== own) continue
      await release(transaction, ids, job, { reason: 'the server stopped while it ran', isOrderly: true })
      released.push(job.id)
    }
    return released
  })
}

/**
 * Releases the jobs of workers on other machines that answer but do not move on, whichever server they answer to.
 *
 * @returns the ids
 */
export async function releaseStalled(
  db: DatabaseHandle,
  ids: IdSource,
  { stallMs, backoffMs }: { readonly stallMs: number; readonly backoffMs: number },
): Promise<readonly string[]> {
  return inTransaction(db, async (transaction) => {
    const jobs = await listStalledJobs(transaction, REMOTE_OWNER, stallMs)
    const reason = `its worker answered but made no progress for ${stallMs / 1000} seconds`
    for (const job of jobs) await release(transaction, ids, job, { reason, isOrderly: false, backoffMs })
    return jobs.map(({ id }) => id)
  })
}

/** Releases what a worker on another machine has claimed and not ended. @returns the ids */
export async function releaseClaims(
  db: DatabaseHandle,
  ids: IdSource,
  owner: string,
  lost: Pick<LostAttempt, 'reason' | 'isOrderly' | 'backoffMs'>,
): Promise<readonly string[]> {
  return inTransaction(db, async (transaction) => {
    const jobs = await listClaimedJobs(transaction, owner)
    for (const job of jobs) await release(transaction, ids, job, lost)
    return jobs.map(({ id }) => id)
  })
}

async function release(
  db: Database,
  ids: IdSource,
  job: JobRecord,
  lost: Pick<LostAttempt, 'reason' | 'isOrderly' | 'backoffMs' | 'isUnmade'>,
): Promise<JobRecord['status']> {
  if (job.isCancelRequested) {
    await endUnsuccessfully(db, ids, job, CANCELLED)
    return 'cancelled'
  }
  const losses = job.losses + (lost.isOrderly ? 0 : 1)
  if (losses >= MAX_LOSSES) {
    const message = `the training job lost its worker ${losses} times in a row without progress, at last because ${lost.reason}`
    await endUnsuccessfully(db, ids, job, { code: 'worker_lost', message, isCancelled: false })
    return 'failed'
  }
  const pauseMs = lost.isOrderly ? 0 : (lost.backoffMs ?? RESTART_BACKOFF_MS) * 5 ** (losses - 1)
  await setJobQueuedAgain(db, job.id, {
    losses,
    pauseMs,
    attempt: lost.isUnmade === true ? job.attempt - 1 : job.attempt,
  })
  await deleteJobFiles(db, job.id)
  return 'queued'
}
