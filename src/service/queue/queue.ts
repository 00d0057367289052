/**
 * The queue: creating jobs once, and claiming them in order.
 *
 * First in, first out per model; one running job per model (also a unique index); jobs of different models side by side.
 * A repeated create answers with the job it made before (wire-contract.md section 6, item 4):
 * - the same `Idempotency-Key`: always; a given key switches the rules below off;
 * - the same model, kind, input and configuration while that job is unfinished, or within `REPEAT_WINDOW_MS` of its
 *   creation, or within `RETRY_WINDOW_MS` when the client says that it retries (`x-stainless-retry-count` above 0);
 * - SFT from a `wandb-artifact:` address: always, unless that job failed or was cancelled, because an artifact version
 *   never changes and the hosted service answers so.
 */
import { AppError } from '#base/errors.js'
import type { IdSource } from '#base/util/ids.js'
import { hashSecret } from '#service/storage/api-keys.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { type Database, type DatabaseHandle, databaseNowMs, isUniqueViolation } from '#service/storage/database.js'
import { findIdempotent, type IdempotencyScope, rememberIdempotent } from '#service/storage/idempotency.js'
import {
  countUnfinishedJobs,
  findJob,
  insertJob,
  type JobRecord,
  type NewJob,
  toJob,
} from '#service/storage/training-jobs.js'

/** A create repeated within this time is taken for a retry although its job has ended. */
export const REPEAT_WINDOW_MS = 5_000
/** The same, when the client marks the request as a retry. */
export const RETRY_WINDOW_MS = 30 * 60_000
/** Jobs of one entity that may wait or run; beyond it a create answers 429. */
export const MAX_UNFINISHED_JOBS = 1000

export interface CreateJobOptions {
  readonly idempotencyKey: string | null
  /** True when the client says that it sends this create again. */
  readonly isRetry: boolean
}

/**
 * Stores a queued job, or finds the one this request made before.
 *
 * @throws {AppError} `queue_full` beyond `MAX_UNFINISHED_JOBS`; `idempotency_key_reused`; `model_not_found` if the model
 *   was deleted meanwhile
 */
export async function createJob(
  db: DatabaseHandle,
  job: NewJob,
  options: CreateJobOptions,
): Promise<{ readonly job: JobRecord; readonly isNew: boolean }> {
  return db.transaction().execute(async (transaction) => {
    const before = await findRepeated(transaction, job, options)
    if (before !== null) return { job: before, isNew: false }
    const model = await transaction.selectFrom('models').select('id').where('id', '=', job.modelId).executeTakeFirst()
    if (model === undefined) throw new AppError('not_found', 'model_not_found', `model "${job.modelId}" was not found`)
    if ((await countUnfinishedJobs(transaction, job.entity)) >= MAX_UNFINISHED_JOBS) {
      throw new AppError(
        'rate_limited',
        'queue_full',
        `the queue holds ${MAX_UNFINISHED_JOBS} unfinished jobs already`,
        {
          hint: 'wait for jobs to end, or cancel some',
        },
      )
    }
    await insertJob(transaction, job)
    const scope = scopeOf(job, options)
    if (scope !== null) await rememberIdempotent(transaction, scope, job.requestDigest, job.id)
    const stored = await findJob(transaction, job.id)
    if (stored === null) throw new AppError('internal', 'internal_error', 'a job vanished while it was created')
    return { job: stored, isNew: true }
  })
}

function scopeOf(job: NewJob, options: CreateJobOptions): IdempotencyScope | null {
  if (options.idempotencyKey === null) return null
  return { entity: job.entity, scope: 'training-jobs', key: options.idempotencyKey }
}

async function findRepeated(db: Database, job: NewJob, options: CreateJobOptions): Promise<JobRecord | null> {
  const scope = scopeOf(job, options)
  if (scope !== null) {
    const id = await findIdempotent(db, scope, job.requestDigest)
    return id === null ? null : findJob(db, id)
  }
  const rows = await db
    .selectFrom('training_jobs')
    .selectAll()
    .select(databaseNowMs.as('now_ms'))
    .where('model_id', '=', job.modelId)
    .where('request_digest', '=', job.requestDigest)
    .orderBy('id', 'desc')
    .limit(1)
    .execute()
  const row = rows[0]
  if (row === undefined) return null
  const windowMs = options.isRetry ? RETRY_WINDOW_MS : REPEAT_WINDOW_MS
  const isUnfinished = row.status === 'queued' || row.status === 'running'
  const isArtifact = job.sourceUrl?.startsWith('wandb-artifact:') === true && row.status === 'completed'
  return isUnfinished || isArtifact || row.now_ms - row.created_at_ms < windowMs ? toJob(row) : null
}

/** A job a worker may now run, and the secret it proves itself with. */
export interface ClaimedJob {
  readonly job: JobRecord
  readonly token: string
}

/**
 * Claims the oldest queued job whose model has no running one; null when there is none.
 *
 * The claim raises `attempt` (the fencing token), starts the lease and fixes the parent checkpoint.
 */
export async function claimNextJob(
  db: DatabaseHandle,
  ids: IdSource,
  lease: { readonly owner: string; readonly leaseMs: number },
): Promise<ClaimedJob | null> {
  try {
    return await db.transaction().execute((transaction) => claim(transaction, ids, lease))
  } catch (error) {
    // another process was faster: the partial unique index held
    if (isUniqueViolation(error)) return null
    throw error
  }
}

async function claim(
  db: Database,
  ids: IdSource,
  lease: { readonly owner: string; readonly leaseMs: number },
): Promise<ClaimedJob | null> {
  const row = await db
    .selectFrom('training_jobs as job')
    .select(['job.id', 'job.model_id'])
    .where('job.status', '=', 'queued')
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('training_jobs as other')
            .select('other.id')
            .whereRef('other.model_id', '=', 'job.model_id')
            .where('other.status', '=', 'running'),
        ),
      ),
    )
    .orderBy('job.id')
    .limit(1)
    .executeTakeFirst()
  if (row === undefined) return null
  const token = ids.secret(32)
  const parent = await findCheckpoint(db, row.model_id, 'latest')
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      status: 'running',
      attempt: e('attempt', '+', 1),
      lease_owner: lease.owner,
      lease_expires_at_ms: e(databaseNowMs, '+', lease.leaseMs),
      heartbeat_at_ms: databaseNowMs,
      token_hash: hashSecret(token),
      parent_step: parent?.step ?? 0,
      started_at_ms: e.fn.coalesce('started_at_ms', databaseNowMs),
    }))
    .where('id', '=', row.id)
    .execute()
  const job = await findJob(db, row.id)
  return job === null ? null : { job, token }
}
