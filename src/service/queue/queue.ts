/**
 * The queue: creating jobs once, and claiming them in order.
 *
 * First in, first out per model; one running job per model (also a unique index); jobs of different models side by side, and
 * projects and models take turns (`plan.ts`).
 * A repeated create answers with the job it made before, because clients retry creates without saying so:
 * - the same `Idempotency-Key`: always; a given key switches the rules below off;
 * - the same model, kind, input and configuration while that job is unfinished, or within `REPEAT_WINDOW_MS` of its
 *   creation, or within `RETRY_WINDOW_MS` when the client says that it retries (`x-stainless-retry-count` above 0). A job that
 *   failed is sent again on purpose: it is only returned to a marked retry that comes within `REPEAT_WINDOW_MS` of its end. So is
 *   one that was cancelled, which a marked retry does not bring back to life;
 * - SFT from a `wandb-artifact:` address: always, unless that job failed or was cancelled, because an artifact version
 *   never changes and the hosted service answers so.
 */

import { AppError } from '#base/errors/errors.js'
import type { IdSource } from '#base/util/ids.js'
import type { WorkerFacts } from '#contract/wire/training/worker-facts.js'
import { hashSecret } from '#service/storage/api-keys.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { type Database, type DatabaseHandle, isUniqueViolation } from '#service/storage/database.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { type Claimant, findClaimableJob, findJobByDigest, setJobRunning } from '#service/storage/jobs/states.js'
import { findModel } from '#service/storage/models.js'
import { findJob, findRoom, insertJob, type JobRecord, type NewJob } from '#service/storage/training-jobs.js'

/** A create repeated within this time is taken for a retry although its job has ended. */
export const REPEAT_WINDOW_MS = 5_000
/** The same, when the client marks the request as a retry. */
export const RETRY_WINDOW_MS = 30 * 60_000
export interface CreateJobOptions {
  readonly idempotencyKey: string | null
  /** Project of the API key that asks; null: all of the entity, the default. */
  readonly keyProject?: string | null
  /** True when the client says that it sends this create again. */
  readonly isRetry: boolean
  /** Jobs of one entity that may wait or run; beyond it a create answers 429. */
  readonly maxUnfinished: number
  /** Rows that are stored before a new job, all or nothing: its model, if that is made for it. */
  readonly before?: ((transaction: Database) => Promise<void>) | undefined
  /** Rows that are stored with a new job, all or nothing. */
  readonly also?: ((transaction: Database, jobId: string) => Promise<void>) | undefined
}

/**
 * Stores a queued job, or finds the one this request made before.
 *
 * @throws {AppError} `queue_full` beyond `maxUnfinished`; `idempotency_key_reused`; `model_not_found` if the model
 *   was deleted meanwhile
 */
export async function createJob(
  db: DatabaseHandle,
  job: NewJob,
  options: CreateJobOptions,
): Promise<{ readonly job: JobRecord; readonly isNew: boolean }> {
  return inTransaction(db, async (transaction) => {
    const before = await findRepeated(transaction, job, options)
    if (before !== null) return { job: before, isNew: false }
    await options.before?.(transaction)
    const room = await findRoom(transaction, job)
    if (!room.hasModel) throw new AppError('not_found', 'model_not_found', `model "${job.modelId}" was not found`)
    if (room.unfinished >= options.maxUnfinished) {
      throw new AppError(
        'rate_limited',
        'queue_full',
        `the queue holds ${options.maxUnfinished} unfinished jobs already`,
        {
          hint: 'wait for jobs to end, or cancel some',
          details: { max_queued_jobs: options.maxUnfinished, retry_after_seconds: 30 },
        },
      )
    }
    const stored = await insertJob(transaction, job)
    const scope = scopeOf(job, options)
    if (scope !== null) await rememberIdempotent(transaction, scope, job.requestDigest, job.id)
    await options.also?.(transaction, job.id)
    return { job: stored, isNew: true }
  })
}

function scopeOf(job: NewJob, options: CreateJobOptions): IdempotencyScope | null {
  if (options.idempotencyKey === null) return null
  return {
    entity: job.entity,
    project: options.keyProject ?? null,
    scope: 'training-jobs',
    key: options.idempotencyKey,
  }
}

/** The job that a create made before, where it is a repetition. */
export async function findRepeated(db: Database, job: NewJob, options: CreateJobOptions): Promise<JobRecord | null> {
  const scope = scopeOf(job, options)
  if (scope !== null) {
    const id = await findIdempotent(db, scope, job.requestDigest)
    return id === null ? null : findJob(db, id)
  }
  const before = await findJobByDigest(db, job.modelId, job.requestDigest)
  if (before === null) return null
  const { status } = before.job
  const windowMs = options.isRetry ? RETRY_WINDOW_MS : REPEAT_WINDOW_MS
  const isUnfinished = status === 'queued' || status === 'running'
  const isArtifact = job.sourceUrl?.startsWith('wandb-artifact:') === true && status === 'completed'
  // an age below zero: the clock was set back meanwhile
  if (status === 'failed') return options.isRetry && Math.abs(before.endedAgeMs) < REPEAT_WINDOW_MS ? before.job : null
  const isGivenUp = status === 'cancelled' || before.job.isCancelRequested
  if (isGivenUp && !options.isRetry) return null
  return isUnfinished || isArtifact || Math.abs(before.ageMs) < windowMs ? before.job : null
}

/** A job a worker may now run, and the secret it proves itself with. */
export interface ClaimedJob {
  readonly job: JobRecord
  /** Name of its base model; null if its model is gone. */
  readonly baseModel: string | null
  readonly token: string
}

/** Claimant of a job, with the lease it gets. */
export interface NewLease extends Claimant {
  readonly owner: string
  readonly leaseMs: number
  /** Facts of the worker, for the job's record. */
  readonly worker: WorkerFacts
}

/** Prefix of owners that are workers on other machines: a start of the server ends leases of its own children only. */
export const REMOTE_OWNER = 'remote-'

/** Owner of leases of a server's own workers. */
export function localOwner(serverId: string): string {
  return `local-${serverId}`
}

export function remoteOwner(workerId: string): string {
  return `${REMOTE_OWNER}${workerId}`
}

export function isRemoteOwner(owner: string | null): boolean {
  return owner?.startsWith(REMOTE_OWNER) === true
}

/**
 * Claims the job whose turn it is, of those that are the first of their model and whose pause after a loss is over; null
 * without one.
 *
 * The claim raises `attempt` (the fencing token), starts the lease and fixes the parent checkpoint.
 */
export async function claimNextJob(db: DatabaseHandle, ids: IdSource, lease: NewLease): Promise<ClaimedJob | null> {
  try {
    return await inTransaction(db, (transaction) => claim(transaction, ids, lease))
  } catch (error) {
    // another process came first: the partial unique index held
    if (isUniqueViolation(error)) return null
    throw error
  }
}

async function claim(db: Database, ids: IdSource, lease: NewLease): Promise<ClaimedJob | null> {
  const next = await findClaimableJob(db, lease)
  if (next === null) return null
  const token = ids.secret(32)
  const parent = await findCheckpoint(db, next.modelId, 'latest')
  await setJobRunning(db, next.id, {
    leaseOwner: lease.owner,
    leaseMs: lease.leaseMs,
    worker: lease.worker,
    tokenHash: hashSecret(token),
    parentStep: parent?.step ?? 0,
  })
  const job = await findJob(db, next.id)
  const model = await findModel(db, next.modelId)
  return job === null ? null : { job, baseModel: model?.baseModel ?? null, token }
}
