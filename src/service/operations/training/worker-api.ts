/**
 * The server's side of the worker protocol (`contract/processes/worker.ts`): every call is fenced by attempt and lease.
 */
import type { Readable } from 'node:stream'
import { AppError, ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { LORA_DEFAULTS } from '#contract/jobs/lora-options.js'
import { pluginsNeeded } from '#contract/jobs/plugin-options.js'
import {
  type BaseModelFiles,
  CHECKPOINT_FILES,
  type CheckpointFile,
  type HeartbeatReply,
  MAX_CHECKPOINT_FILE_BYTES,
  MAX_ROLLOUTS_BYTES,
  PARENT_FILES,
  type WorkerCompletion,
  type WorkerEvents,
  type WorkerFailure,
  type WorkerHeartbeat,
  type WorkerJob,
} from '#contract/processes/worker.js'
import { EXAMPLES_KIND } from '#contract/wire/job-words.js'
import { encodeManifest } from '#formats/checkpoint-manifest.js'
import { appendEvents } from '#service/queue/event-log.js'
import { type AttemptClaim, checkLease, heartbeat, stale, withLease } from '#service/queue/lease.js'
import { type Completion, collectFiles, completeJob, failAttempt } from '#service/queue/outcome.js'
import { isRemoteOwner } from '#service/queue/queue.js'
import { templateKwargsOf } from '#service/queue/template-kwargs.js'
import { type OpenedBlob, openOrLink } from '#service/storage/blobs.js'
import { type CheckpointRecord, findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { countEvents } from '#service/storage/events.js'
import { putJobFile } from '#service/storage/jobs/files.js'
import { findKeptData, ROLLOUTS_FILE, setKeptCounts } from '#service/storage/jobs/kept-data.js'
import { findResumePoint, putResumePoint } from '#service/storage/jobs/resume-points.js'
import { extendLease, setJobReport, setJobTrainer, setJobWorker } from '#service/storage/jobs/states.js'
import { findModel, type ModelRecord } from '#service/storage/models.js'
import { hasCompletedJob, type JobRecord } from '#service/storage/training-jobs.js'
import type { BaseModelEntry, ServiceContext } from '../context.js'
import { optionsOfJob, referenceOfJob } from '../job-options.js'
import { openCheckpointBlob } from '../models/checkpoint-blobs.js'
import { assertAdapter } from '../models/uploaded-adapter.js'
import { readAdapterShape } from './adapter-shape.js'
import { findKlReference } from './kl-reference.js'

export interface WorkerApiService {
  /** Refuses whoever holds no lease; asked before a body is read. @throws what `checkLease` throws */
  /** @returns whose job it is; what its clients hold does not count against its workers */
  authorize(claim: AttemptClaim): Promise<{ readonly owner: string }>
  job(claim: AttemptClaim): Promise<WorkerJob>
  /** @param mayLink the worker can read elsewhere; the same of all files below */
  openInput(claim: AttemptClaim, mayLink: boolean): Promise<OpenedBlob>
  openValidation(claim: AttemptClaim, mayLink: boolean): Promise<OpenedBlob>
  /** @throws {CheckpointError} `checkpoint_corrupt` if the file is gone from the disk */
  openParentFile(claim: AttemptClaim, name: string, mayLink: boolean): Promise<OpenedBlob>
  /** The same of the checkpoint that the KL penalty is measured to. */
  openReferenceFile(claim: AttemptClaim, name: string, mayLink: boolean): Promise<OpenedBlob>
  /** What a worker fetches that has no folder of the job's base model. @throws {NotFoundError} `base_model_not_found` */
  baseModelFiles(claim: AttemptClaim): Promise<BaseModelFiles>
  /** @throws {NotFoundError} `file_not_found` */
  openBaseModelFile(
    claim: AttemptClaim,
    name: string,
  ): Promise<{ readonly stream: Readable; readonly sha256: string; readonly sizeBytes: number }>
  heartbeat(claim: AttemptClaim, beat: WorkerHeartbeat): Promise<HeartbeatReply>
  appendEvents(claim: AttemptClaim, events: WorkerEvents): Promise<void>
  putFile(claim: AttemptClaim, name: string, body: AsyncIterable<Uint8Array>, sha256: string): Promise<void>
  putResumePoint(
    claim: AttemptClaim,
    body: AsyncIterable<Uint8Array>,
    point: { readonly sha256: string; readonly eventCount: number },
  ): Promise<void>
  /** Keeps what was noted of the rollouts until the job ends, if its data is kept. */
  putRollouts(
    claim: AttemptClaim,
    body: AsyncIterable<Uint8Array>,
    notes: { readonly sha256: string; readonly groups: number; readonly trajectories: number },
  ): Promise<void>
  openResumePoint(claim: AttemptClaim, mayLink: boolean): Promise<OpenedBlob>
  complete(claim: AttemptClaim, completion: WorkerCompletion): Promise<void>
  fail(claim: AttemptClaim, failure: WorkerFailure): Promise<void>
}

/** What it works with. */
type Context = Pick<
  ServiceContext,
  | 'db'
  | 'blobs'
  | 'ids'
  | 'logger'
  | 'signals'
  | 'dispatcher'
  | 'baseModels'
  | 'baseModelFiles'
  | 'leaseMs'
  | 'resumeIntervalMs'
  | 'requestSweep'
  | 'exporter'
>

/** What a worker is told of the job's rows, and of those that the model has seen. */
async function rowFacts(db: Database, { modelId, validationSha256 }: JobRecord) {
  return {
    is_shown: await hasCompletedJob(db, modelId, EXAMPLES_KIND),
    has_validation: validationSha256 !== null,
  }
}

export function createWorkerApiService(context: Context): WorkerApiService {
  const { db, blobs, ids, logger, signals, dispatcher } = context

  /**
   * The checkpoint the KL penalty of a job, or a preference job, is measured to; null for the base model, or without one.
   *
   * @throws {NotFoundError} `checkpoint_not_found` if it was deleted since the job was created
   */
  async function referenceOf(job: JobRecord): Promise<CheckpointRecord | null> {
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
  async function baseModelOf(job: JobRecord): Promise<{ readonly model: ModelRecord; readonly base: BaseModelEntry }> {
    const model = await findModel(db, job.modelId)
    const base = context.baseModels.find((entry) => entry.name === model?.baseModel)
    if (model !== null && base !== undefined) return { model, base }
    throw new NotFoundError('base_model_not_found', `base model "${model?.baseModel ?? ''}" is not served here`)
  }

  async function fail(claim: AttemptClaim, failure: WorkerFailure): Promise<void> {
    await failAttempt(db, ids, claim, {
      code: failure.code,
      message: failure.message,
      isCancelled: failure.is_cancelled,
    })
    const { jobId, attempt } = claim
    if (failure.is_cancelled) logger.info({ job_id: jobId, attempt }, 'job.cancelled')
    else logger.warn({ job_id: jobId, attempt, code: failure.code, reason: failure.message }, 'job.failed')
    signals.notify(claim.jobId)
    dispatcher.wake()
  }

  /**
   * What a job ends with was stored by its attempt. What a worker of another machine made is looked at before it is a checkpoint;
   * a job whose adapter is none ends.
   *
   * @throws {InvalidRequestError} `checkpoint_incomplete`, `adapter_refused`
   */
  async function assertMade(claim: AttemptClaim, files: Completion['files']): Promise<void> {
    const { job, state } = await checkLease(db, claim)
    if (state === 'completed') return
    // before anything is read: what the attempt did not store may be another's
    for (const { name, sha256 } of await collectFiles(db, claim, files)) {
      if (!(await blobs.has(sha256)))
        throw new InvalidRequestError('checkpoint_incomplete', `file "${name}" was not uploaded`)
    }
    if (!isRemoteOwner(job.leaseOwner)) return
    const { model, base } = await baseModelOf(job)
    const parent = await findCheckpoint(db, model.id, job.parentStep ?? 0)
    const shape = parent === null ? null : await readAdapterShape(context, parent)
    const rank = shape?.rank ?? rankOfOptions(optionsOfJob(job))
    const digests = Object.fromEntries(Object.entries(files).map(([name, { sha256 }]) => [name, sha256]))
    try {
      await assertAdapter(context, { base, entity: job.entity, rank, files: digests })
    } catch (error) {
      if (error instanceof InvalidRequestError) {
        await fail(claim, { code: error.code, message: error.message, is_cancelled: false })
      }
      throw error
    }
  }

  return {
    authorize: async (claim) => ({ owner: `workers of ${(await checkLease(db, claim)).job.entity}` }),

    job: async (claim) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      const { model, base } = await baseModelOf(job)
      const parent = await findCheckpoint(db, model.id, job.parentStep ?? 0)
      const point = await findResumePoint(db, job.id, job.parentStep ?? 0)
      const reference = await referenceOf(job)
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
        // names that no option has go along: not known here, they may be to a worker of another making
        config: { ...job.config, ...optionsOfJob(job) } as WorkerJob['config'],
        plugins: pluginsNeeded(job.kind, job.resolvedConfig),
        template_kwargs: templateKwargsOf(job.resolvedConfig ?? {}, parent) as WorkerJob['config'],
        keeps_rollouts: (await findKeptData(db, [job.id])).has(job.id),
        lease_seconds: context.leaseMs / 1000,
        resume_seconds: context.resumeIntervalMs / 1000,
        resume: point === null ? null : { sha256: point.sha256, events: point.eventCount },
      }
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
      const reference = await referenceOf(job)
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
      return context.baseModelFiles.describe((await baseModelOf(job)).base)
    },

    openBaseModelFile: async (claim, name) => {
      const { job } = await checkLease(db, claim)
      dispatcher.noteContact(claim, 'moved')
      return context.baseModelFiles.open((await baseModelOf(job)).base, name)
    },

    heartbeat: async (claim, beat) => {
      // noted before the write: a worker that waits for a full disk lives
      await checkLease(db, claim)
      dispatcher.noteContact(claim, beat.progress ?? null)
      const reply = await heartbeat(db, claim, context.leaseMs, beat.progress ?? null)
      return { is_cancel_requested: reply.isCancelRequested, is_stop_requested: reply.isStopRequested }
    },

    appendEvents: async (claim, batch) => {
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        const events = batch.events.map((event) => ({ type: event.type, data: finiteOnly(event.data) }))
        const added = await appendEvents(transaction, ids, job.id, { offset: batch.offset, events })
        if (batch.report !== undefined) await setJobReport(transaction, job.id, batch.report)
        if (batch.computing !== undefined) {
          const { versions, ...computing } = batch.computing
          const known = job.worker?.['versions'] as JsonObject | undefined
          await setJobWorker(transaction, job.id, { ...job.worker, ...computing, versions: { ...known, ...versions } })
        }
        await extendLease(transaction, job.id, context.leaseMs, { hasAdvanced: added > 0 })
      })
      dispatcher.noteContact(claim, 'moved')
      signals.notify(claim.jobId)
    },

    putFile: async (claim, name, body, sha256) => {
      if (!isCheckpointFile(name)) {
        throw new InvalidRequestError('invalid_value', `file must be one of ${CHECKPOINT_FILES.join(', ')}`, {
          param: 'file',
        })
      }
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_CHECKPOINT_FILE_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        await putJobFile(transaction, claim, { name, sha256: blob.sha256, sizeBytes: blob.sizeBytes })
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
    },

    putResumePoint: async (claim, body, { sha256, eventCount }) => {
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_CHECKPOINT_FILE_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        const stored = await countEvents(transaction, job.id)
        if (eventCount > stored) {
          throw new InvalidRequestError(
            'event_gap',
            `a resume point covers at most ${stored} events, got ${eventCount}`,
            {
              param: 'x-trainyard-events',
            },
          )
        }
        const { sha256: digest, sizeBytes } = blob
        await putResumePoint(transaction, job.id, {
          parentStep: job.parentStep ?? 0,
          eventCount,
          sha256: digest,
          sizeBytes,
        })
        const trainer = job.worker?.['trainer']
        if (typeof trainer === 'string') await setJobTrainer(transaction, job.id, trainer)
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
      // the point before has become garbage
      context.requestSweep()
    },

    putRollouts: async (claim, body, { sha256, groups, trajectories }) => {
      await checkLease(db, claim)
      const blob = await blobs.put(body, { maxBytes: MAX_ROLLOUTS_BYTES, expectedSha256: sha256 })
      await withLease(db, claim, async (transaction, { job, state }) => {
        if (state === 'completed') throw stale(claim, 'the job is completed')
        await putJobFile(transaction, claim, { name: ROLLOUTS_FILE, sha256: blob.sha256, sizeBytes: blob.sizeBytes })
        await setKeptCounts(transaction, job.id, { groups, trajectories })
        await extendLease(transaction, job.id, context.leaseMs)
      })
      dispatcher.noteContact(claim, 'moved')
    },

    openResumePoint: async (claim, mayLink) => {
      const { job } = await checkLease(db, claim)
      const point = await findResumePoint(db, job.id, job.parentStep ?? 0)
      if (point === null) throw new NotFoundError('file_not_found', 'the job has no resume point')
      return openOrLink(blobs, point.sha256, { mayLink })
    },

    complete: async (claim, completion) => {
      const files = Object.fromEntries(
        Object.entries(completion.files).map(([name, file]) => [
          name,
          { sha256: file.sha256, sizeBytes: file.size_bytes },
        ]),
      )
      await assertMade(claim, files)
      // last of all files: a checkpoint without it does not exist
      const manifest = await blobs.put([encodeManifest(files)])
      const step = await completeJob(db, ids, claim, {
        files,
        manifest,
        metrics: finiteOnly(completion.metrics),
        report: completion.report ?? null,
      })
      logger.info({ job_id: claim.jobId, attempt: claim.attempt, step }, 'job.completed')
      context.requestSweep()
      signals.notify(claim.jobId)
      // the next job of the model may begin, on whatever machine
      dispatcher.wake()
    },

    fail,
  }
}

/** What a new adapter of the job has. */
function rankOfOptions({ lora }: JsonObject): number {
  const rank = isJsonObject(lora) ? lora['rank'] : undefined
  return typeof rank === 'number' ? rank : LORA_DEFAULTS.rank
}

function isCheckpointFile(name: string): name is CheckpointFile {
  return CHECKPOINT_FILES.some((known) => known === name)
}

/** Clients run `float()` on every value, so only finite numbers leave the server. */
function finiteOnly(data: Readonly<Record<string, JsonValue>>): Record<string, number> {
  const kept: Record<string, number> = {}
  for (const [name, value] of Object.entries(data)) {
    if (typeof value === 'number' && Number.isFinite(value)) kept[name] = value
  }
  return kept
}

/**
 * Reads the headers that prove an attempt.
 *
 * @throws {AppError} `invalid_api_key` without a token
 * @throws {ConflictError} `stale_attempt` if the attempt is no number
 */
export function toAttemptClaim(jobId: string, attempt: string | undefined, token: string | null): AttemptClaim {
  if (token === null) throw new AppError('authentication', 'invalid_api_key', 'the attempt token is not valid')
  if (attempt === undefined || !/^\d{1,9}$/.test(attempt)) {
    throw new ConflictError('stale_attempt', 'header x-trainyard-attempt must be the number of the attempt')
  }
  return { jobId, attempt: Number(attempt), token }
}
