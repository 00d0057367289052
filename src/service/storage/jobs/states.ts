/**
 * The rows behind a job's state: waiting, claimed, leased, ended. Each function is one statement; which of them may run
 * when, and what must happen in the same transaction, is the queue's business.
 */
import { sql } from 'kysely'
import type { JsonObject } from '#base/util/json.js'
import { JOB_STATUSES, type JobStatus } from '#contract/wire/job-words.js'
import { addTrainingTime } from '../access/usage-days.js'
import { type Database, databaseNowMs } from '../database.js'
import { storableText } from '../row-values.js'
import { type JobRecord, toJob } from '../training-jobs.js'

/** Whose jobs: those of an entity, or of one project of it. */
export interface JobOwner {
  readonly entity: string
  readonly project: string | null
}

/** Which jobs a worker may have. */
export interface Claimant {
  /** Only jobs of these; null: of everybody. */
  readonly tenant: JobOwner | null
  /** What can compute its gradients. */
  readonly trainers: readonly string[]
  /** Jobs whose base model alone is larger are not for it; null: it has what there is. */
  readonly memoryBytes: number | null
  /** Only jobs of these; absent: of all. */
  readonly baseModels?: readonly string[] | undefined
}

/**
 * The queued job whose turn it is, of those that are the first of their model and whose pause after a loss is over: an
 * interrupted one, else one of the project that runs the fewest, of those that waited longest for a turn, and in it of the
 * model that did. `queue/plan.ts` tells the order of all.
 *
 * @param claimant only jobs that it may have; default all
 */
export async function findClaimableJob(
  db: Database,
  claimant: Claimant | null = null,
): Promise<{ readonly id: string; readonly modelId: string } | null> {
  const owner = claimant?.tenant ?? null
  const memoryBytes = claimant?.memoryBytes ?? null
  const baseModels = claimant?.baseModels
  if (baseModels?.length === 0) return null
  const row = await db
    .selectFrom('training_jobs as job')
    .select(['job.id', 'job.model_id'])
    .where('job.status', '=', 'queued')
    .$if(owner !== null, (query) => query.where('job.entity', '=', owner?.entity ?? ''))
    .$if(owner?.project != null, (query) => query.where('job.project', '=', owner?.project ?? ''))
    .$if(claimant !== null, (query) =>
      query.where((e) => e.or([e('job.trainer', 'is', null), e('job.trainer', 'in', claimant?.trainers ?? [])])),
    )
    .$if(memoryBytes !== null, (query) =>
      query.where((e) => e.or([e('job.weight_bytes', 'is', null), e('job.weight_bytes', '<=', memoryBytes)])),
    )
    .$if(baseModels !== undefined, (query) =>
      query.where((e) =>
        e(
          'job.model_id',
          'in',
          e
            .selectFrom('models')
            .select('models.id')
            .where('base_model', 'in', baseModels ?? []),
        ),
      ),
    )
    .where((e) => e.or([e('job.retry_at_ms', 'is', null), e('job.retry_at_ms', '<=', databaseNowMs)]))
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('training_jobs as other')
            .select('other.id')
            .whereRef('other.model_id', '=', 'job.model_id')
            // an older job that waits for its next attempt keeps its place
            .where((o) =>
              o.or([
                o('other.status', '=', 'running'),
                o.and([o('other.status', '=', 'queued'), o(o.ref('other.id'), '<', o.ref('job.id'))]),
              ]),
            ),
        ),
      ),
    )
    .orderBy(sql`case when job.attempt > 0 then 0 else 1 end`)
    .orderBy((e) =>
      e
        .selectFrom('training_jobs as other')
        .select((o) => o.fn.countAll().as('count'))
        .where('other.status', '=', 'running')
        .whereRef('other.entity', '=', 'job.entity')
        .whereRef('other.project', '=', 'job.project'),
    )
    .orderBy((e) =>
      e
        .selectFrom('training_jobs as other')
        .select((o) => o.fn.coalesce(o.fn.max('other.claim_order'), sql<number>`0`).as('turn'))
        .whereRef('other.entity', '=', 'job.entity')
        .whereRef('other.project', '=', 'job.project'),
    )
    .orderBy((e) =>
      e
        .selectFrom('training_jobs as other')
        .select((o) => o.fn.coalesce(o.fn.max('other.claim_order'), sql<number>`0`).as('turn'))
        .whereRef('other.model_id', '=', 'job.model_id'),
    )
    .orderBy('job.id')
    .limit(1)
    .executeTakeFirst()
  return row === undefined ? null : { id: row.id, modelId: row.model_id }
}

/** What a claim fixes for the attempt it starts. */
export interface NewAttempt {
  readonly leaseOwner: string
  readonly leaseMs: number
  /** What is known of the worker. */
  readonly worker: JsonObject
  readonly tokenHash: string
  readonly parentStep: number
}

/** Makes a job running: raises its attempt and starts the lease. Fails with a unique violation if its model has one. */
export async function setJobRunning(db: Database, id: string, attempt: NewAttempt): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      status: 'running',
      attempt: e('attempt', '+', 1),
      claim_order: e
        .selectFrom('training_jobs as other')
        .select((o) => o(o.fn.coalesce(o.fn.max('other.claim_order'), sql<number>`0`), '+', 1).as('turn')),
      lease_owner: attempt.leaseOwner,
      worker: JSON.stringify(attempt.worker),
      lease_expires_at_ms: e(databaseNowMs, '+', attempt.leaseMs),
      heartbeat_at_ms: databaseNowMs,
      progress: null,
      progress_at_ms: databaseNowMs,
      retry_at_ms: null,
      token_hash: attempt.tokenHash,
      parent_step: attempt.parentStep,
      started_at_ms: e.fn.coalesce('started_at_ms', databaseNowMs),
    }))
    .where('id', '=', id)
    .execute()
}

/**
 * Takes a job from its attempt and queues it again.
 *
 * @param again.losses workers it has lost in a row
 * @param again.pauseMs time in which nobody may claim it
 * @param again.attempt the last that somebody made
 */
export async function setJobQueuedAgain(
  db: Database,
  id: string,
  again: { readonly losses: number; readonly pauseMs: number; readonly attempt: number },
): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      status: 'queued',
      attempt: again.attempt,
      losses: again.losses,
      retry_at_ms: again.pauseMs === 0 ? null : e(databaseNowMs, '+', again.pauseMs),
      lease_owner: null,
      lease_expires_at_ms: null,
      token_hash: null,
    }))
    .where('id', '=', id)
    .execute()
}

/** Ends a job with the step it made; its token stays, so that a repeated completion is known again. */
export async function setJobCompleted(db: Database, id: string, step: number): Promise<void> {
  await db
    .updateTable('training_jobs')
    // the input is not needed again: the sweeper frees its blob
    .set({
      status: 'completed',
      step,
      input_sha256: null,
      validation_sha256: null,
      lease_expires_at_ms: null,
      ended_at_ms: databaseNowMs,
    })
    .where('id', '=', id)
    .execute()
}

/** Ends a job without a checkpoint. */
export async function setJobUnsuccessful(
  db: Database,
  id: string,
  end: {
    readonly status: Extract<JobStatus, 'failed' | 'cancelled'>
    readonly errorCode: string
    readonly errorMessage: string
  },
): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set({
      status: end.status,
      error_code: end.errorCode,
      error_message: storableText(end.errorMessage),
      input_sha256: null,
      validation_sha256: null,
      lease_expires_at_ms: null,
      token_hash: null,
      ended_at_ms: databaseNowMs,
    })
    .where('id', '=', id)
    .execute()
}

/** Marks a job as asked to stop. */
export async function setCancelRequested(db: Database, id: string): Promise<void> {
  await db.updateTable('training_jobs').set({ is_cancel_requested: 1 }).where('id', '=', id).execute()
}

/** Marks a job as asked to end with what it has learned. */
export async function setStopRequested(db: Database, id: string): Promise<void> {
  await db.updateTable('training_jobs').set({ is_stop_requested: 1 }).where('id', '=', id).execute()
}

/** Forgets the inputs of a model's jobs, so that the sweeper frees them. */
export async function clearJobInputs(db: Database, modelId: string): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set({ input_sha256: null, validation_sha256: null })
    .where('model_id', '=', modelId)
    .execute()
}

/** A job with what proves an attempt of it. */
export interface LeaseRecord {
  readonly job: JobRecord
  readonly tokenHash: string | null
}

export async function findLease(db: Database, jobId: string): Promise<LeaseRecord | null> {
  const row = await db.selectFrom('training_jobs').selectAll().where('id', '=', jobId).executeTakeFirst()
  return row === undefined ? null : { job: toJob(row), tokenHash: row.token_hash }
}

/**
 * Restarts the lease of a job and counts the time since its last sign of life; call with the lease held.
 *
 * @param options.hasAdvanced the attempt stored something no attempt had before: earlier losses no longer count
 * @param options.progress a heartbeat's counter, null if it had none; anything but a heartbeat is progress by itself
 */
export async function extendLease(
  db: Database,
  jobId: string,
  leaseMs: number,
  options: { readonly hasAdvanced?: boolean; readonly progress?: number | null } = {},
): Promise<void> {
  await addTrainingTime(db, jobId, leaseMs)
  const { progress } = options
  await db
    .updateTable('training_jobs')
    .set((e) => ({
      ...(progress === undefined ? { progress_at_ms: databaseNowMs } : {}),
      ...(typeof progress === 'number'
        ? {
            progress,
            progress_at_ms: e
              .case()
              .when('progress', '=', progress)
              .then(e.ref('progress_at_ms'))
              .else(databaseNowMs)
              .end(),
          }
        : {}),
      heartbeat_at_ms: databaseNowMs,
      lease_expires_at_ms: e(databaseNowMs, '+', leaseMs),
      ...(options.hasAdvanced === true ? { losses: 0 } : {}),
    }))
    .where('id', '=', jobId)
    .execute()
}

/** Replaces what a job tells about itself. */
export async function setJobReport(db: Database, jobId: string, report: JsonObject): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set({ report: JSON.stringify(report), reported_at_ms: databaseNowMs })
    .where('id', '=', jobId)
    .execute()
}

/** Says which worker runs a job, when more is known of it than at its claim. */
export async function setJobWorker(db: Database, jobId: string, worker: JsonObject): Promise<void> {
  await db
    .updateTable('training_jobs')
    .set({ worker: JSON.stringify(worker) })
    .where('id', '=', jobId)
    .execute()
}

/** Says what a job goes on with, whoever takes it next. */
export async function setJobTrainer(db: Database, jobId: string, trainer: string): Promise<void> {
  await db.updateTable('training_jobs').set({ trainer }).where('id', '=', jobId).execute()
}

/** Every running job. */
export async function listRunningJobs(db: Database): Promise<readonly JobRecord[]> {
  const rows = await db.selectFrom('training_jobs').selectAll().where('status', '=', 'running').execute()
  return rows.map(toJob)
}

/** Running jobs that `owner` has claimed. */
export async function listClaimedJobs(db: Database, owner: string): Promise<readonly JobRecord[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .selectAll()
    .where('status', '=', 'running')
    .where('lease_owner', '=', owner)
    .execute()
  return rows.map(toJob)
}

/** Renews the leases of those of these jobs that `owner` still has. Counts no time: their workers do. */
export async function renewLeases(
  db: Database,
  owner: string,
  { jobIds, leaseMs }: { readonly jobIds: readonly string[]; readonly leaseMs: number },
): Promise<void> {
  if (jobIds.length === 0) return
  await db
    .updateTable('training_jobs')
    .set((e) => ({ lease_expires_at_ms: e(databaseNowMs, '+', leaseMs) }))
    .where('id', 'in', jobIds)
    .where('status', '=', 'running')
    .where('lease_owner', '=', owner)
    .execute()
}

/** Running jobs whose owner's name begins so, and of which nothing has moved for so long. */
export async function listStalledJobs(db: Database, owners: string, stallMs: number): Promise<readonly JobRecord[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .selectAll()
    .where('status', '=', 'running')
    .where('lease_owner', 'like', `${owners}%`)
    .where((e) => e('progress_at_ms', '<=', e(databaseNowMs, '-', stallMs)))
    .execute()
  return rows.map(toJob)
}

/** Running jobs whose lease is over by the database's clock. */
export async function listExpiredJobs(db: Database): Promise<readonly JobRecord[]> {
  const rows = await db
    .selectFrom('training_jobs')
    .selectAll()
    .where('status', '=', 'running')
    .where('lease_expires_at_ms', '<=', databaseNowMs)
    .execute()
  return rows.map(toJob)
}

/** The newest job a request with this digest made for a model, and the time since its creation and end by the database's clock. */
export async function findJobByDigest(
  db: Database,
  modelId: string,
  requestDigest: string,
): Promise<{ readonly job: JobRecord; readonly ageMs: number; readonly endedAgeMs: number } | null> {
  const row = await db
    .selectFrom('training_jobs')
    .selectAll()
    .select(databaseNowMs.as('now_ms'))
    .where('model_id', '=', modelId)
    .where('request_digest', '=', requestDigest)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (row === undefined) return null
  const { now_ms: nowMs } = row
  return { job: toJob(row), ageMs: nowMs - row.created_at_ms, endedAgeMs: nowMs - (row.ended_at_ms ?? nowMs) }
}

/** How many jobs there are of each status. Reads an index, not the rows. */
export async function countJobsByStatus(db: Database): Promise<ReadonlyMap<JobStatus, number>> {
  const rows = await db
    .selectFrom('training_jobs')
    .select((e) => ['status', e.fn.countAll<number>().as('count')])
    .groupBy('status')
    .execute()
  const none = JOB_STATUSES.map((status): [JobStatus, number] => [status, 0])
  return new Map([...none, ...rows.map(({ status, count }): [JobStatus, number] => [status as JobStatus, count])])
}
