/**
 * How a job ends. Each function is one transaction: status, terminal event and, for a completion, the checkpoint and the
 * model's step become visible together or not at all.
 */

import { createHash } from 'node:crypto'
import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { IdSource } from '#base/util/ids.js'
import type { JsonObject } from '#base/util/json.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import { addTrainingTime } from '#service/storage/access/usage-days.js'
import { type CheckpointFileRecord, findCheckpoint, insertCheckpoint } from '#service/storage/checkpoints.js'
import type { Database, DatabaseHandle } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { deleteJobFiles, listJobFiles } from '#service/storage/jobs/files.js'
import { takeRollouts } from '#service/storage/jobs/kept-data.js'
import { deleteResumePoint } from '#service/storage/jobs/resume-points.js'
import {
  setCancelRequested,
  setJobCompleted,
  setJobReport,
  setJobUnsuccessful,
  setStopRequested,
} from '#service/storage/jobs/states.js'
import { findModel, setModelStep } from '#service/storage/models.js'
import { findJob, type JobRecord } from '#service/storage/training-jobs.js'
import { appendTerminalEvent } from './event-log.js'
import { type AttemptClaim, withLease } from './lease.js'
import { templateKwargsOf } from './template-kwargs.js'

/** Files every checkpoint must have. */
const REQUIRED_FILES = [ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE]

/** Most that is counted between an attempt's last sign of life and its end. */
const LAST_STRETCH_MS = 60_000

/** What a worker claims to have made. */
export interface Completion {
  readonly files: Readonly<Record<string, { readonly sha256: string; readonly sizeBytes: number }>>
  /** The stored `manifest.json` over these files. */
  readonly manifest: { readonly sha256: string; readonly sizeBytes: number }
  readonly metrics: Readonly<Record<string, number>>
  /** The job's last report; null leaves the one there is. */
  readonly report: JsonObject | null
}

/**
 * Publishes the checkpoint and ends the job. Repeating it with the same attempt changes nothing.
 *
 * @returns the step of the new checkpoint
 * @throws {ConflictError} `stale_attempt`
 * @throws {InvalidRequestError} `checkpoint_incomplete` if a file is missing or differs from what was uploaded
 */
export async function completeJob(
  db: DatabaseHandle,
  ids: IdSource,
  claim: AttemptClaim,
  completion: Completion,
): Promise<number> {
  return withLease(db, claim, async (transaction, { job, state }) => {
    if (state === 'completed') return job.step ?? 0
    await addTrainingTime(transaction, job.id, LAST_STRETCH_MS)
    const files = await collectFiles(transaction, claim, completion.files)
    const model = await findModel(transaction, job.modelId)
    if (model === null) throw new NotFoundError('model_not_found', `model "${job.modelId}" was not found`)
    const parent = await findCheckpoint(transaction, model.id, job.parentStep ?? 0)
    const step = model.step + 1
    const id = ids.uuid()
    await insertCheckpoint(transaction, {
      id,
      modelId: model.id,
      step,
      kind: job.kind,
      jobId: job.id,
      adapterDigest: digestOfAdapter(files),
      metrics: completion.metrics,
      templateKwargs: templateKwargsOf(job.resolvedConfig ?? {}, parent),
      files: [...files, { name: MANIFEST_FILE, ...completion.manifest }],
    })
    await setModelStep(transaction, model.id, step)
    await takeRollouts(transaction, job.id)
    await deleteJobFiles(transaction, job.id)
    await deleteResumePoint(transaction, job.id)
    if (completion.report !== null) await setJobReport(transaction, job.id, completion.report)
    await setJobCompleted(transaction, job.id, step)
    await appendTerminalEvent(transaction, ids, job.id, { type: 'training_ended', data: { step, checkpoint_id: id } })
    return step
  })
}

/**
 * What the attempt has stored of these files; each is one of them, or the digest of another's bytes would make those its own.
 *
 * @throws {InvalidRequestError} `checkpoint_incomplete`
 */
export async function collectFiles(
  db: Database,
  claim: AttemptClaim,
  files: Completion['files'],
): Promise<readonly CheckpointFileRecord[]> {
  const uploaded = new Map((await listJobFiles(db, claim)).map((file) => [file.name, file]))
  for (const name of REQUIRED_FILES) {
    if (files[name] === undefined) throw incomplete(`files must name "${name}"`)
  }
  return Object.entries(files).map(([name, promised]) => {
    const file = uploaded.get(name)
    if (file === undefined) throw incomplete(`file "${name}" was not uploaded`)
    if (file.sha256 !== promised.sha256 || file.sizeBytes !== promised.sizeBytes) {
      throw incomplete(`file "${name}" was uploaded with other bytes than the completion names`)
    }
    return file
  })
}

/** What the engine calls an adapter: a digest of its files' digests. */
export function digestOfAdapter(files: readonly { readonly name: string; readonly sha256: string }[]): string {
  const hash = createHash('sha256')
  for (const name of REQUIRED_FILES) hash.update(files.find((file) => file.name === name)?.sha256 ?? '')
  return hash.digest('hex')
}

function incomplete(message: string): InvalidRequestError {
  return new InvalidRequestError('checkpoint_incomplete', message)
}

export interface Failure {
  readonly code: string
  readonly message: string
  readonly isCancelled: boolean
}

/** Ends the job of an attempt that reports its own failure. Repeating it answers 409, for the job has ended. */
export async function failAttempt(
  db: DatabaseHandle,
  ids: IdSource,
  claim: AttemptClaim,
  failure: Failure,
): Promise<void> {
  await withLease(db, claim, async (transaction, { job, state }) => {
    if (state === 'completed') throw new ConflictError('job_already_finished', 'the job is completed')
    await addTrainingTime(transaction, job.id, LAST_STRETCH_MS)
    await endUnsuccessfully(transaction, ids, job, failure)
  })
}

/** Writes a failed or cancelled end: status, error and the one terminal event. Call inside a transaction. */
export async function endUnsuccessfully(db: Database, ids: IdSource, job: JobRecord, failure: Failure): Promise<void> {
  await setJobUnsuccessful(db, job.id, {
    status: failure.isCancelled ? 'cancelled' : 'failed',
    errorCode: failure.code,
    errorMessage: failure.message,
  })
  await takeRollouts(db, job.id)
  await deleteJobFiles(db, job.id)
  await deleteResumePoint(db, job.id)
  await appendTerminalEvent(db, ids, job.id, {
    type: 'training_failed',
    data: { error_message: failure.message, error_code: failure.code },
  })
}

/**
 * Asks a job to stop: a queued one ends at once, a running one is told with its next heartbeat, a cancelled one stays so.
 *
 * @returns the job after the request
 * @throws {NotFoundError} `training_job_not_found`; {ConflictError} `job_already_finished`
 */
export async function requestCancel(db: DatabaseHandle, ids: IdSource, jobId: string): Promise<JobRecord> {
  return inTransaction(db, async (transaction) => {
    const job = await findJob(transaction, jobId)
    if (job === null) throw new NotFoundError('training_job_not_found', `training job "${jobId}" was not found`)
    if (job.status === 'queued') {
      await endUnsuccessfully(transaction, ids, job, CANCELLED)
    } else if (job.status === 'running') {
      await setCancelRequested(transaction, jobId)
    } else if (job.status !== 'cancelled') {
      throw new ConflictError('job_already_finished', `training job "${jobId}" is ${job.status} already`)
    }
    const after = await findJob(transaction, jobId)
    if (after === null) throw new AppError('internal', 'internal_error', 'a job vanished while it was cancelled')
    return after
  })
}

/**
 * Asks a running job to end after its gradient step, with a checkpoint.
 *
 * @returns the job after the request
 * @throws {NotFoundError} `training_job_not_found`; {ConflictError} `job_not_running`, `job_already_finished`
 */
export async function requestStop(db: DatabaseHandle, jobId: string): Promise<JobRecord> {
  return inTransaction(db, async (transaction) => {
    const job = await findJob(transaction, jobId)
    if (job === null) throw new NotFoundError('training_job_not_found', `training job "${jobId}" was not found`)
    if (job.status === 'queued') {
      throw new ConflictError('job_not_running', `training job "${jobId}" has not begun: there is nothing to keep`, {
        hint: 'POST …/cancel takes it from the queue (trainyard jobs cancel)',
      })
    }
    if (job.status !== 'running') {
      throw new ConflictError('job_already_finished', `training job "${jobId}" is ${job.status} already`)
    }
    await setStopRequested(transaction, jobId)
    return { ...job, isStopRequested: true }
  })
}

/** The failure a cancelled job ends with. */
export const CANCELLED: Failure = { code: 'cancelled', message: 'the training job was cancelled', isCancelled: true }
