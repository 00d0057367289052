/**
 * Ends the requests of a training session that save something: files that its worker stored become named weights, a
 * checkpoint of a model, or weights to sample with.
 *
 * Weights saved for sampling under a name are checkpoints of a model, so that lists, chat and downloads have them.
 * Those without a name are kept for a day, and only the newest few of a session.
 */
import type { IdSource } from '#base/util/ids.js'
import type { SessionFile } from '#contract/processes/training-session.js'
import { encodeManifest, MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import type { BlobStore } from '#service/storage/blobs.js'
import { insertCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { SAVED_BY } from '#service/storage/model-metrics.js'
import { findModel, findModelByName, insertModel, setModelStep } from '#service/storage/models.js'
import { insertSampler } from '#service/storage/training-sessions/client-sessions.js'
import type {
  RequestEnd,
  RequestKind,
  SessionRequestRecord,
} from '#service/storage/training-sessions/session-requests.js'
import {
  deleteSessionWeights,
  findSessionWeights,
  insertSessionWeights,
  keepNewestUnnamed,
  type WeightKind,
} from '#service/storage/training-sessions/session-weights.js'
import {
  findTrainingSession,
  type StoredFile,
  setSessionModel,
  type TrainingSessionRecord,
} from '#service/storage/training-sessions/training-sessions.js'
import { digestOfAdapter } from '../outcome.js'

const DAY_MS = 86_400_000
/** Weights without a name that a session keeps: loops make new ones with every step and sample from the newest. */
const KEPT_UNNAMED = 8

/** `detail` of a request that saves. */
export interface SaveDetail {
  /** Null: for a sampler that nobody else finds. */
  readonly name: string | null
  /** The sampler that a save without a name makes. */
  readonly samplerId?: string
  readonly isOverwriting?: boolean
  readonly ttlSeconds: number | null
  readonly userMetadata: Readonly<Record<string, unknown>>
}

/** What the weights are that a request saves. */
const SAVED_AS: Partial<Readonly<Record<RequestKind, WeightKind>>> = {
  save_weights: 'weights',
  save_weights_for_sampler: 'sampler_weights',
  save_weights_external: 'external_weights',
}

/** Whether a request of this kind ends with {@link endSave}. */
export function savesWeights({ kind }: { readonly kind: RequestKind }): boolean {
  return SAVED_AS[kind] !== undefined
}

/** Files with the manifest over them; to be made before the transaction that names them. */
export async function withManifest(
  blobs: Pick<BlobStore, 'put'>,
  files: readonly SessionFile[],
): Promise<readonly StoredFile[]> {
  const stored = files.map(({ name, sha256, size_bytes: sizeBytes }) => ({ name, sha256, sizeBytes }))
  const manifest = await blobs.put([encodeManifest(Object.fromEntries(stored.map((file) => [file.name, file])))])
  return [...stored, { name: MANIFEST_FILE, ...manifest }]
}

/** Ends a request whose files are stored; in a transaction. */
export async function endSave(
  db: Database,
  ids: IdSource,
  request: SessionRequestRecord,
  files: readonly StoredFile[],
): Promise<RequestEnd> {
  const session = await findTrainingSession(db, request.sessionId)
  if (session === null) return { error: 'the training run was deleted', isUserError: true }
  const detail = readDetail(request.detail)
  const kind = SAVED_AS[request.kind]
  if (kind === undefined) throw new Error(`a request of kind ${request.kind} saves nothing`)
  const { name } = detail
  const existing = name === null ? null : await findSessionWeights(db, { sessionId: session.id, kind, name })
  if (existing !== null) {
    if (detail.isOverwriting !== true) {
      return {
        error: `${pathOf(session.id, kind, name ?? '')} exists already; save under another name, or delete it first`,
        isUserError: true,
      }
    }
    await deleteSessionWeights(db, existing.id)
  }
  const id = ids.uuid()
  const isCheckpoint = kind === 'sampler_weights' && name !== null
  const checkpoint = isCheckpoint ? await addCheckpoint(db, ids, { session, seq: request.seq, files }) : null
  const ttlMs = detail.ttlSeconds === null ? (name === null ? DAY_MS : null) : detail.ttlSeconds * 1000
  const { entity } = session
  await insertSessionWeights(db, {
    id,
    entity,
    sessionId: session.id,
    kind,
    name,
    step: checkpoint?.step ?? null,
    userMetadata: detail.userMetadata,
    ttlMs,
    files,
  })
  if (name !== null) {
    const path = pathOf(session.id, kind, name)
    // the last two are for our own client; others pass them over
    const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0)
    return { result: { type: request.kind, path, size_bytes: sizeBytes, ...checkpoint } }
  }
  const samplerId = detail.samplerId ?? id
  await insertSampler(db, {
    id: samplerId,
    entity,
    clientSessionId: session.clientSessionId,
    baseModel: session.baseModel,
    weightsId: id,
    modelPath: null,
  })
  await keepNewestUnnamed(db, session.id, KEPT_UNNAMED)
  return { result: { type: request.kind, sampling_session_id: samplerId } }
}

/** `detail` as it was stored. */
function readDetail(detail: SessionRequestRecord['detail']): SaveDetail {
  const { name, samplerId, isOverwriting, ttlSeconds, userMetadata } = detail
  return {
    name: typeof name === 'string' ? name : null,
    ...(typeof samplerId === 'string' ? { samplerId } : {}),
    isOverwriting: isOverwriting === true,
    ttlSeconds: typeof ttlSeconds === 'number' ? ttlSeconds : null,
    userMetadata: { ...(userMetadata as Readonly<Record<string, unknown>> | null) },
  }
}

/** How clients name saved weights. */
export function pathOf(sessionId: string, kind: WeightKind, name: string): string {
  return `tinker://${sessionId}/${kind}/${name}`
}

/** Name of the model that a session's checkpoints go to: a model's name has no colons. */
export function modelNameOf(sessionId: string): string {
  return sessionId.replaceAll(':', '-')
}

interface SavedForSampling {
  readonly session: TrainingSessionRecord
  readonly seq: number
  readonly files: readonly StoredFile[]
}

/** Of a model: which, and as which step. */
async function addCheckpoint(
  db: Database,
  ids: IdSource,
  { session, seq, files }: SavedForSampling,
): Promise<{ readonly model_id: string; readonly step: number }> {
  const model = await modelOf(db, ids, session)
  const step = model.step + 1
  await insertCheckpoint(db, {
    id: ids.uuid(),
    modelId: model.id,
    step,
    kind: null,
    // of a job there is one checkpoint, of a session one with every request that saves
    jobId: `${session.id}${SAVED_BY}${seq}`,
    adapterDigest: digestOfAdapter(files),
    metrics: { 'session/optimizer_steps': session.stepCount },
    templateKwargs: {},
    files,
  })
  await setModelStep(db, model.id, step)
  return { model_id: model.id, step }
}

/** The session's model, made anew if somebody deleted it. */
async function modelOf(db: Database, ids: IdSource, session: TrainingSessionRecord) {
  const known = session.modelId === null ? null : await findModel(db, session.modelId)
  if (known !== null) return known
  const { entity, project, baseModel } = session
  const name = modelNameOf(session.id)
  const named = await findModelByName(db, entity, project, name)
  const id = named?.id ?? ids.uuid()
  if (named === null) await insertModel(db, { id, entity, project, name, baseModel, runId: ids.uuid() })
  await setSessionModel(db, session.id, id)
  return { id, step: named?.step ?? 0 }
}
