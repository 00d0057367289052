/**
 * The server's side of the protocol of training sessions (`contract/processes/training-session.ts`): every call is fenced by attempt.
 */

import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import {
  SESSION_FILES,
  type SessionFile,
  type SessionReport,
  type TrainingSessionSpec,
} from '#contract/processes/training-session.js'
import {
  type BaseModelFiles,
  type HeartbeatReply,
  MAX_CHECKPOINT_FILE_BYTES,
  type WorkerHeartbeat,
} from '#contract/processes/worker.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE } from '#formats/checkpoint-manifest.js'
import type { AttemptClaim } from '#service/queue/lease.js'
import { type OpenedBlob, openOrLink } from '#service/storage/blobs.js'
import { findTrainingSession, listSessionFiles } from '#service/storage/training-sessions/training-sessions.js'
import type { OpenedModelFile } from '../base-models/base-model-files.js'
import type { ServiceContext } from '../context.js'
import { assertAdapter } from '../models/uploaded-adapter.js'

/** What every save has. */
const ADAPTER_FILES = [ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE]

export interface SessionApiService {
  /** Refuses whoever does not hold the session; asked before a body is read. */
  /** @returns whose session it is: itself, for it has one worker */
  authorize(claim: AttemptClaim): Promise<{ readonly owner: string }>
  session(claim: AttemptClaim): Promise<TrainingSessionSpec>
  /** What a worker fetches that has no folder of the session's base model. */
  baseModelFiles(claim: AttemptClaim): Promise<BaseModelFiles>
  /** @throws {NotFoundError} `file_not_found` */
  openBaseModelFile(claim: AttemptClaim, name: string, from: number): Promise<OpenedModelFile>
  /** A file of its state, or of an order to load, by its digest. @throws {NotFoundError} `file_not_found` */
  openFile(claim: AttemptClaim, sha256: string, mayLink: boolean): Promise<OpenedBlob>
  putFile(claim: AttemptClaim, sha256: string, body: AsyncIterable<Uint8Array>): Promise<void>
  heartbeat(claim: AttemptClaim, beat: WorkerHeartbeat): Promise<HeartbeatReply>
  /** Takes a report; answers with the next order, as a frame. */
  turn(claim: AttemptClaim, report: SessionReport, output: Uint8Array): Promise<Uint8Array>
}

export function createSessionApiService(
  context: Pick<
    ServiceContext,
    'db' | 'blobs' | 'exporter' | 'sessions' | 'baseModels' | 'baseModelFiles' | 'leaseMs' | 'maxContextLength'
  >,
): SessionApiService {
  const { db, blobs, sessions } = context

  /** @throws {NotFoundError} `base_model_not_found` if it was removed since the session was created */
  async function open(claim: AttemptClaim) {
    const { id, attempt, watch } = sessions.heldBy(claim)
    watch.note('moved')
    const session = await findTrainingSession(db, id)
    const base = context.baseModels.find(({ name }) => name === session?.baseModel)
    if (session !== null && base !== undefined) return { id, attempt, session, base }
    throw new NotFoundError('base_model_not_found', `base model "${session?.baseModel ?? ''}" is not served here`)
  }

  /** What was saved is what its worker stored for it, and from another machine an adapter, or the save has failed. */
  async function checkedReport(claim: AttemptClaim, report: SessionReport): Promise<SessionReport> {
    const { turns, worker } = sessions.heldBy(claim)
    const saving = turns.saving()
    const { files = [], ...rest } = report
    if (saving === null || report.order !== saving.order || report.error !== undefined) return rest
    try {
      assertStored(files, saving.stored)
      if (worker.remoteId !== null) await assertSaved(claim, files)
      return report
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error
      return { ...rest, error: { code: error.code, message: error.message, is_user_error: false } }
    }
  }

  async function assertSaved(claim: AttemptClaim, files: readonly SessionFile[]): Promise<void> {
    const { session, base } = await open(claim)
    const digests = Object.fromEntries(files.map(({ name, sha256 }) => [name, sha256]))
    await assertAdapter(context, { base, entity: session.entity, rank: session.rank, files: digests })
  }

  return {
    authorize: async (claim) => ({ owner: sessions.heldBy(claim).id }),
    baseModelFiles: async (claim) => context.baseModelFiles.describe((await open(claim)).base),
    openBaseModelFile: async (claim, name, from) => context.baseModelFiles.open((await open(claim)).base, name, from),
    session: async (claim) => {
      const { id, attempt, session, base } = await open(claim)
      const files = await listSessionFiles(db, id)
      return {
        id,
        attempt,
        base_model: { name: base.name },
        lora: { rank: session.rank, alpha: session.alpha, seed: session.seed },
        trains_mlp: session.trainsMlp,
        trains_attention: session.trainsAttention,
        max_context_length: context.maxContextLength,
        state: files.map(({ name, sha256, sizeBytes }) => ({ name, sha256, size_bytes: sizeBytes })),
        lease_seconds: context.leaseMs / 1000,
      }
    },
    openFile: async (claim, sha256, mayLink) => {
      const { id, turns, watch } = sessions.heldBy(claim)
      watch.note('moved')
      const isOwn = turns.isOrdered(sha256) || (await listSessionFiles(db, id)).some((file) => file.sha256 === sha256)
      // the digest of what belongs to others opens nothing
      if (!isOwn) throw new NotFoundError('file_not_found', `the session has no file "${sha256.slice(0, 100)}"`)
      return openOrLink(blobs, sha256, { mayLink })
    },
    putFile: async (claim, sha256, body) => {
      const { turns } = sessions.heldBy(claim)
      const stored = turns.saving()?.stored
      if (stored === undefined || (stored.size >= SESSION_FILES.length && !stored.has(sha256)))
        throw new ConflictError(
          'nothing_to_save',
          `an order to save has at most ${SESSION_FILES.length} files, others none`,
        )
      // its place is taken before its bytes come: of many at once no more are written than of one after the other
      stored.set(sha256, stored.get(sha256) ?? -1)
      const { sizeBytes } = await blobs.put(body, { maxBytes: MAX_CHECKPOINT_FILE_BYTES, expectedSha256: sha256 })
      stored.set(sha256, sizeBytes)
      sessions.heldBy(claim).watch.note('moved')
    },
    heartbeat: async (claim, { progress }) => {
      sessions.heldBy(claim).watch.note(progress ?? null)
      return { is_cancel_requested: false, is_stop_requested: false }
    },
    turn: async (claim, report, output) => {
      const { watch } = sessions.heldBy(claim)
      watch.note('moved')
      const checked = await checkedReport(claim, report)
      // another worker may have it by now
      return sessions.heldBy(claim).turns.turn(checked, output)
    },
  }
}

/**
 * Digests of what others stored are refused: a save that names one would make their bytes its own.
 *
 * @throws {InvalidRequestError} `checkpoint_incomplete`
 */
function assertStored(files: readonly SessionFile[], stored: ReadonlyMap<string, number>): void {
  const other = files.find(({ sha256, size_bytes: sizeBytes }) => stored.get(sha256) !== sizeBytes)
  const missing = ADAPTER_FILES.find((name) => !files.some((file) => file.name === name))
  const named = other?.name ?? missing
  if (named !== undefined)
    throw new InvalidRequestError('checkpoint_incomplete', `file "${named}" was not stored by the worker that saved`)
}
