/**
 * How an attempt ends: with a checkpoint, whose files are looked at first, or with a reason why there is none.
 */
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { LORA_DEFAULTS } from '#contract/jobs/lora-options.js'
import type { WorkerFailure } from '#contract/processes/worker.js'
import { encodeManifest } from '#formats/checkpoint-manifest.js'
import { type AttemptClaim, checkLease } from '#service/queue/lease.js'
import { type Completion, collectFiles, completeJob, failAttempt } from '#service/queue/outcome.js'
import { isRemoteOwner } from '#service/queue/queue.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { ServiceContext } from '../context.js'
import { optionsOfJob } from '../job-options.js'
import { assertAdapter } from '../models/uploaded-adapter.js'
import { readAdapterShape } from './adapter-shape.js'
import type { WorkerApiService } from './worker-calls.js'
import { baseModelOf } from './worker-input.js'
import { finiteOnly } from './worker-progress.js'

type Context = Pick<
  ServiceContext,
  'db' | 'blobs' | 'ids' | 'logger' | 'signals' | 'dispatcher' | 'baseModels' | 'requestSweep' | 'exporter'
>

export function createWorkerOutcome(context: Context): Pick<WorkerApiService, 'complete' | 'fail'> {
  const { db, blobs, ids, logger, signals, dispatcher } = context

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
    const { model, base } = await baseModelOf(context, job)
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
