/**
 * What a worker is told of its attempt, and what it fetches for it: rows, the files it goes on from, the base model.
 */

import { NotFoundError } from '#base/errors/errors.js'
import { pluginsNeeded } from '#contract/jobs/plugin-options.js'
import { PARENT_FILES, type WorkerJob } from '#contract/processes/worker.js'
import { EXAMPLES_KIND } from '#contract/wire/job-words.js'
import { checkLease } from '#service/queue/lease.js'
import { templateKwargsOf } from '#service/queue/template-kwargs.js'
import { openOrLink } from '#service/storage/blobs.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { findKeptData } from '#service/storage/jobs/kept-data.js'
import { findResumePoint } from '#service/storage/jobs/resume-points.js'
import { findModel, type ModelRecord } from '#service/storage/models.js'
import { countCompletedJobs, type JobRecord } from '#service/storage/training-jobs.js'
import type { BaseModelEntry, ServiceContext } from '../context.js'
import { optionsOfJob, referenceOfJob } from '../job-options.js'
import { openCheckpointBlob } from '../models/checkpoint-blobs.js'
import { findKlReference } from './kl-reference.js'
import type { WorkerApiService } from './worker-calls.js'

type Context = Pick<
  ServiceContext,
  | 'db'
  | 'blobs'
  | 'logger'
  | 'dispatcher'
  | 'baseModels'
  | 'baseModelFiles'
  | 'modelFacts'
  | 'leaseMs'
  | 'resumeIntervalMs'
>

/** What a worker is told of the job's rows, and of those that the model has seen. */
async function rowFacts(db: Database, { modelId, validationSha256 }: JobRecord) {
  return {
    times_shown: await countCompletedJobs(db, modelId, EXAMPLES_KIND),
    has_validation: validationSha256 !== null,
  }
}

/**
 * The checkpoint the KL penalty of a job, or a preference job, is measured to; null for the base model, or without one.
 *
 * @throws {NotFoundError} `checkpoint_not_found` if it was deleted since the job was created
 */
async function referenceOf(context: Context, job: JobRecord): Promise<CheckpointRecord | null> {
  const reference = referenceOfJob(job)
  const { entity, modelId, parentStep } = job
  if (reference === null) return null
  try {
    return await findKlReference(context, { entity, project: null, modelId, parentStep: parentStep ?? 0 }, reference)
  } catch (cause) {
    if (!(cause instanceof NotFoundError)) throw cause
    const message = `the reference of the job was deleted before it began: ${cause.message}`
    throw new NotFoundError('checkpoint_not_found', message, { cause })
  }
}

/** @throws {NotFoundError} `base_model_not_found` if it was removed since the job was created */
export async function baseModelOf(
  { db, baseModels }: Pick<Context, 'db' | 'baseModels'>,
  job: JobRecord,
): Promise<{ readonly model: ModelRecord; readonly base: BaseModelEntry }> {
  const model = await findModel(db, job.modelId)
  const base = baseModels.find((entry) => entry.name === model?.baseModel)
  if (model !== null && base !== undefined) return { model, base }
  throw new NotFoundError('base_model_not_found', `base model "${model?.baseModel ?? ''}" is not served here`)
}

/** What the attempt is told. */
async function describeJob(context: Context, job: JobRecord): Promise<WorkerJob> {
  const { db } = context
  const { model, base } = await baseModelOf(context, job)
  const parent = await findCheckpoint(db, model.id, job.parentStep ?? 0)
  const point = await findResumePoint(db, job.id, job.parentStep ?? 0)
  const reference = await referenceOf(context, job)
  return {
    id: job.id,
    kind: job.kind,
    attempt: job.attempt,
    model_id: model.id,
    model_name: model.name,
    parent_step: parent?.step ?? 0,
    parent_kind: parent?.kind ?? null,
    parent_files: PARENT_FILES.filter((name) => parent?.files.some((file) => file.name === name) === true),
    parent_digests: Object.fromEntries((parent?.files ?? []).map(({ name, sha256 }) => [name, sha256])),
    reference_files: PARENT_FILES.filter(
      (name) => name !== 'optimizer.safetensors' && reference?.files.some((file) => file.name === name) === true,
    ),
    ...(await rowFacts(db, job)),
    base_model: { name: base.name },
    lost_tokens: await context.modelFacts.lostTokensOf(base),
    // names that no option has go along: not known here, they may be to a worker of another making
    config: { ...job.config, ...optionsOfJob(job) } as WorkerJob['config'],
    plugins: pluginsNeeded(job.kind, job.resolvedConfig),
    template_kwargs: templateKwargsOf(job.resolvedConfig ?? {}, parent) as WorkerJob['config'],
    keeps_rollouts: (await findKeptData(db, [job.id])).has(job.id),
    lease_seconds: context.leaseMs / 1000,
    resume_seconds: context.resumeIntervalMs / 1000,
    resume: point === null ? null : { sha256: point.sha256, events: point.eventCount },
  }
}

type WorkerInput = Pick<
  WorkerApiService,
  | 'job'
  | 'openInput'
  | 'openValidation'
  | 'openParentFile'
  | 'openReferenceFile'
  | 'baseModelFiles'
  | 'openBaseModelFile'
  | 'openResumePoint'
>

export function createWorkerInput(context: Context): WorkerInput {
  const { db, blobs, dispatcher } = context
  return {
    job: async (claim) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      return describeJob(context, job)
    },

    openInput: async (claim, mayLink) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      if (job.inputSha256 === null) throw new NotFoundError('input_not_found', 'the input of this job was deleted')
      return openOrLink(blobs, job.inputSha256, { mayLink })
    },

    openValidation: async (claim, mayLink) => {
      const { job } = await checkLease(db, claim)
      if (job.validationSha256 === null) throw new NotFoundError('input_not_found', 'this job has no validation rows')
      return openOrLink(blobs, job.validationSha256, { mayLink })
    },

    openParentFile: async (claim, name, mayLink) => {
      const { job } = await checkLease(db, claim)
      const model = await findModel(db, job.modelId)
      const parent = await findCheckpoint(db, job.modelId, job.parentStep ?? 0)
      const file = parent?.files.find((entry) => entry.name === name)
      if (model === null || file === undefined)
        throw new NotFoundError('file_not_found', `the parent checkpoint has no file "${name}"`)
      const open = () => openCheckpointBlob(context, { ...file, model, step: parent?.step ?? 0 })
      return openOrLink(blobs, file.sha256, { mayLink, open })
    },

    openReferenceFile: async (claim, name, mayLink) => {
      const { job } = await checkLease(db, claim)
      const reference = await referenceOf(context, job)
      const file = reference?.files.find((entry) => entry.name === name)
      const model = await findModel(db, job.modelId)
      if (model === null || reference === null || file === undefined)
        throw new NotFoundError('file_not_found', `the KL reference has no file "${name}"`)
      const open = () => openCheckpointBlob(context, { ...file, model, step: reference.step })
      return openOrLink(blobs, file.sha256, { mayLink, open })
    },

    baseModelFiles: async (claim) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      return context.baseModelFiles.describe((await baseModelOf(context, job)).base)
    },

    openBaseModelFile: async (claim, name, from) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      return context.baseModelFiles.open((await baseModelOf(context, job)).base, name, from)
    },

    openResumePoint: async (claim, mayLink) => {
      const { job } = await checkLease(db, claim)
      const point = await findResumePoint(db, job.id, job.parentStep ?? 0)
      if (point === null) throw new NotFoundError('file_not_found', 'the job has no resume point')
      return openOrLink(blobs, point.sha256, { mayLink })
    },
  }
}
