/**
 * Weights that were saved of training runs, with their files: listed, read, deleted, and how long they stay.
 */
import type { Readable } from 'node:stream'
import { NotFoundError } from '#base/errors/errors.js'
import { MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import type { Principal, ServiceContext, Tenant } from '#service/operations/context.js'
import { deleteCheckpointRows, findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  deleteSessionWeights,
  findSessionWeights,
  listSessionWeights,
  type SessionWeightsRecord,
  setWeightsExpiry,
  WEIGHT_KINDS,
} from '#service/storage/training-sessions/session-weights.js'
import type { TrainingSessionRecord } from '#service/storage/training-sessions/training-sessions.js'
import { requireTrainingSession, requireWeights } from './errors.js'
import { type Page, toWireWeights } from './runs.js'

/** How a client names saved weights of a run. */
export interface Named {
  readonly kind: string
  readonly name: string
}

export function createSavedWeights({
  db,
  blobs,
  engines,
  requestSweep,
}: Pick<ServiceContext, 'db' | 'blobs' | 'engines' | 'requestSweep'>) {
  return {
    /** @param id of a run; null: of all */
    list: async (principal: Principal, id: string | null, page: Page) => {
      const { entity, project } = principal
      const of =
        id === null
          ? { entity, project }
          : { entity, project, sessionId: (await requireTrainingSession(db, principal, id)).id }
      const { weights, total } = await listSessionWeights(db, of, page)
      return { checkpoints: weights.map(toWireWeights), cursor: { ...page, total_count: total } }
    },
    delete: async (principal: Principal, runId: string, kind: string, name: string): Promise<void> => {
      const { session, weights } = await requireNamed(db, principal, runId, { kind, name })
      const digest = await inTransaction(db, async (transaction) => {
        await deleteSessionWeights(transaction, weights.id)
        if (session.modelId === null || weights.step === null) return null
        const checkpoint = await findCheckpoint(transaction, session.modelId, weights.step)
        await deleteCheckpointRows(transaction, session.modelId, [weights.step])
        return checkpoint?.adapterDigest ?? null
      })
      if (digest !== null) engines.forgetAdapter(digest)
      requestSweep()
    },
    /** Names of the files of what was saved, without the manifest, which is the server's own. */
    fileNames: async (principal: Principal, runId: string, kind: string, name: string): Promise<readonly string[]> => {
      const { weights } = await requireNamed(db, principal, runId, { kind, name })
      return weights.files.flatMap((file) => (file.name === MANIFEST_FILE ? [] : [file.name]))
    },
    openFile: async (
      principal: Principal,
      runId: string,
      { kind, name, file }: Named & { readonly file: string },
    ): Promise<{ readonly stream: Readable; readonly sizeBytes: number; readonly sha256: string }> => {
      const { weights } = await requireNamed(db, principal, runId, { kind, name })
      const found = weights.files.find((each) => each.name === file)
      if (found !== undefined) return { ...found, stream: await blobs.openRead(found.sha256) }
      const known = weights.files.map((each) => `"${each.name}"`).join(', ')
      throw new NotFoundError('file_not_found', `the weights have no file "${file.slice(0, 200)}", but ${known}`)
    },
    setExpiry: async (
      principal: Principal,
      runId: string,
      { kind, name, ttlSeconds }: Named & { readonly ttlSeconds: number | null },
    ): Promise<void> => {
      const { weights } = await requireNamed(db, principal, runId, { kind, name })
      await setWeightsExpiry(db, weights.id, ttlSeconds === null ? null : ttlSeconds * 1000)
    },
    info: async (principal: Principal, path: string) => {
      const { session } = await requireWeights(db, principal, path)
      return {
        base_model: session.baseModel,
        is_lora: true,
        lora_rank: session.rank,
        train_unembed: false,
        train_mlp: session.trainsMlp,
        train_attn: session.trainsAttention,
      }
    },
  }
}

/** @throws {NotFoundError} `weights_not_found` */
async function requireNamed(
  db: Database,
  tenant: Tenant,
  runId: string,
  { kind: kindText, name }: Named,
): Promise<{ readonly session: TrainingSessionRecord; readonly weights: SessionWeightsRecord }> {
  const session = await requireTrainingSession(db, tenant, runId)
  const kind = WEIGHT_KINDS.find((known) => known === kindText)
  const weights = kind === undefined ? null : await findSessionWeights(db, { sessionId: session.id, kind, name })
  if (weights !== null) return { session, weights }
  const path = `${kindText}/${name}`.slice(0, 200)
  throw new NotFoundError('weights_not_found', `training run "${session.id}" has no weights "${path}"`)
}
