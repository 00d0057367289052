/**
 * What a worker of an attempt may ask of the server, by the calls of its protocol (`contract/processes/worker.ts`).
 */

import { AppError, ConflictError } from '#base/errors/errors.js'
import type {
  BaseModelFiles,
  HeartbeatReply,
  WorkerCompletion,
  WorkerEvents,
  WorkerFailure,
  WorkerHeartbeat,
  WorkerJob,
} from '#contract/processes/worker.js'
import type { AttemptClaim } from '#service/queue/lease.js'
import type { OpenedBlob } from '#service/storage/blobs.js'
import type { OpenedModelFile } from '../base-models/base-model-files.js'

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
  openBaseModelFile(claim: AttemptClaim, name: string, from: number): Promise<OpenedModelFile>
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
