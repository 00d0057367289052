/**
 * Lists and reads for the Tinker client: its sessions, its training runs, and the weights saved of them, with their
 * files.
 */
import type { Readable } from 'node:stream'
import { NotFoundError } from '#base/errors/errors.js'
import { MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import { pathOf } from '#service/queue/sessions/session-saves.js'
import { deleteCheckpointRows, findCheckpoint } from '#service/storage/checkpoints.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import { listClientSessions, listSamplers } from '#service/storage/tinker/client-sessions.js'
import {
  deleteSessionWeights,
  findSessionWeights,
  listSessionWeights,
  type SessionWeightsRecord,
  setWeightsExpiry,
  WEIGHT_KINDS,
} from '#service/storage/tinker/session-weights.js'
import { listTrainingSessions, type TrainingSessionRecord } from '#service/storage/tinker/training-sessions.js'
import type { Principal, ServiceContext, Tenant } from '../../operations/context.js'
import { requireClientSession, requireTrainingSession } from './errors.js'

export interface Page {
  readonly limit: number
  readonly offset: number
}

const ALL: Page = { limit: 1000, offset: 0 }

export function createRuns({
  db,
  blobs,
  engines,
  requestSweep,
}: Pick<ServiceContext, 'db' | 'blobs' | 'engines' | 'requestSweep'>) {
  async function toRun(session: TrainingSessionRecord) {
    const of = { entity: session.entity, project: null, sessionId: session.id }
    const { weights } = await listSessionWeights(db, of, ALL)
    const newest = (kind: SessionWeightsRecord['kind']) => {
      const found = weights.find((each) => each.kind === kind)
      return found === undefined ? null : toWire(found)
    }
    return {
      training_run_id: session.id,
      base_model: session.baseModel,
      model_owner: session.entity,
      is_lora: true,
      corrupted: session.error !== null,
      lora_rank: session.rank,
      last_request_time: new Date(session.usedAtMs).toISOString(),
      last_checkpoint: newest('weights'),
      last_sampler_checkpoint: newest('sampler_weights'),
      user_metadata: toTexts(session.userMetadata),
    }
  }

  async function requireNamed(
    tenant: Tenant,
    runId: string,
    kindText: string,
    name: string,
  ): Promise<{ readonly session: TrainingSessionRecord; readonly weights: SessionWeightsRecord }> {
    const session = await requireTrainingSession(db, tenant, runId)
    const kind = WEIGHT_KINDS.find((known) => known === kindText)
    const weights = kind === undefined ? null : await findSessionWeights(db, { sessionId: session.id, kind, name })
    if (weights !== null) return { session, weights }
    const path = `${kindText}/${name}`.slice(0, 200)
    throw new NotFoundError('weights_not_found', `training run "${session.id}" has no weights "${path}"`)
  }

  return {
    runs: async (principal: Principal, page: Page) => {
      const { entity, project } = principal
      const { sessions, total } = await listTrainingSessions(db, { entity, project }, page)
      const runs = []
      for (const session of sessions) runs.push(await toRun(session))
      return { training_runs: runs, cursor: { ...page, total_count: total } }
    },
    run: async (principal: Principal, id: string) => toRun(await requireTrainingSession(db, principal, id)),
    /** @param id of a run; null: of all */
    saved: async (principal: Principal, id: string | null, page: Page) => {
      const { entity, project } = principal
      const of =
        id === null
          ? { entity, project }
          : { entity, project, sessionId: (await requireTrainingSession(db, principal, id)).id }
      const { weights, total } = await listSessionWeights(db, of, page)
      return { checkpoints: weights.map(toWire), cursor: { ...page, total_count: total } }
    },
    deleteSaved: async (principal: Principal, runId: string, kind: string, name: string): Promise<void> => {
      const { session, weights } = await requireNamed(principal, runId, kind, name)
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
      const { weights } = await requireNamed(principal, runId, kind, name)
      return weights.files.flatMap((file) => (file.name === MANIFEST_FILE ? [] : [file.name]))
    },
    openFile: async (
      principal: Principal,
      runId: string,
      { kind, name, file }: { readonly kind: string; readonly name: string; readonly file: string },
    ): Promise<{ readonly stream: Readable; readonly sizeBytes: number; readonly sha256: string }> => {
      const { weights } = await requireNamed(principal, runId, kind, name)
      const found = weights.files.find((each) => each.name === file)
      if (found !== undefined) return { ...found, stream: await blobs.openRead(found.sha256) }
      const known = weights.files.map((each) => `"${each.name}"`).join(', ')
      throw new NotFoundError('file_not_found', `the weights have no file "${file.slice(0, 200)}", but ${known}`)
    },
    setExpiry: async (
      principal: Principal,
      runId: string,
      { kind, name, ttlSeconds }: { readonly kind: string; readonly name: string; readonly ttlSeconds: number | null },
    ): Promise<void> => {
      const { weights } = await requireNamed(principal, runId, kind, name)
      await setWeightsExpiry(db, weights.id, ttlSeconds === null ? null : ttlSeconds * 1000)
    },
    sessions: async (principal: Principal, page: Page) => {
      const { entity, project } = principal
      const { sessions, total } = await listClientSessions(db, { entity, project }, page)
      return { sessions: sessions.map(({ id }) => id), cursor: { ...page, total_count: total } }
    },
    session: async (principal: Principal, id: string) => {
      const client = await requireClientSession(db, principal, id)
      const { entity, project } = principal
      const runs = await listTrainingSessions(db, { entity, project, clientSessionId: client.id }, ALL)
      const samplers = await listSamplers(db, client.id)
      return {
        training_run_ids: runs.sessions.map((run) => run.id),
        sampler_ids: samplers.map((sampler) => sampler.id),
        user_metadata: toTexts(client.userMetadata),
        display_name: client.displayName,
      }
    },
  }
}

const TYPES = { weights: 'training', sampler_weights: 'sampler', external_weights: 'external' } as const

function toWire(weights: SessionWeightsRecord) {
  const { kind, name, sessionId, createdAtMs, expiresAtMs } = weights
  return {
    checkpoint_id: `${kind}/${name ?? weights.id}`,
    checkpoint_type: TYPES[kind],
    time: new Date(createdAtMs).toISOString(),
    tinker_path: pathOf(sessionId, kind, name ?? weights.id),
    size_bytes: weights.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    public: false,
    user_metadata: toTexts(weights.userMetadata),
    expires_at: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
  }
}

/** The client reads texts alone. */
function toTexts(metadata: Readonly<Record<string, unknown>>): Record<string, string> | null {
  const entries = Object.entries(metadata)
  if (entries.length === 0) return null
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}
