/**
 * Samplers: what a client samples from, a base model or weights that it saved, opened once and named by an id.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { SampleRequest } from '#contract/wire/training/training-loops.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { AdapterRef } from '#service/processes/engine-process.js'
import { digestOfAdapter } from '#service/queue/outcome.js'
import { toLocalFiles } from '#service/storage/blobs.js'
import {
  findClientSession,
  findSampler,
  insertSampler,
  type SamplerRecord,
} from '#service/storage/training-sessions/client-sessions.js'
import { findSessionWeights, type SessionWeightsRecord } from '#service/storage/training-sessions/session-weights.js'
import { requireClientSession, requireWeights } from './errors.js'

const SERVED_FILES: readonly string[] = ['adapter_config.json', 'adapter_model.safetensors', 'manifest.json']

export type Samplers = ReturnType<typeof createSamplers>

export function createSamplers(context: Pick<ServiceContext, 'db' | 'blobs' | 'ids' | 'baseModels'>) {
  const { db, ids } = context

  async function describe(
    principal: Principal,
    of: Pick<SamplerRecord, 'id' | 'clientSessionId'>,
    { base_model: base, model_path: path }: Pick<SampleRequest, 'base_model' | 'model_path'>,
  ): Promise<SamplerRecord> {
    const found = path === null || path === undefined ? null : await requireWeights(db, principal, path)
    const baseModel = found?.session.baseModel ?? base ?? ''
    if (!context.baseModels.some(({ name }) => name === baseModel)) {
      const known = context.baseModels.map(({ name }) => `"${name}"`).join(', ')
      throw new InvalidRequestError(
        'unknown_base_model',
        `base_model must be one of ${known}, got "${baseModel.slice(0, 200)}"`,
      )
    }
    return { ...of, entity: principal.entity, baseModel, weightsId: found?.weights.id ?? null, modelPath: path ?? null }
  }

  async function requireSampler(principal: Principal, id: string): Promise<SamplerRecord> {
    const sampler = await findSampler(db, id)
    const client = sampler === null ? null : await findClientSession(db, sampler.clientSessionId)
    if (sampler !== null && client !== null && isOwn(principal, client)) return sampler
    throw new NotFoundError('sampler_not_found', `sampler "${id.slice(0, 200)}" was not found`)
  }

  return {
    create: async (
      principal: Principal,
      request: Pick<SampleRequest, 'base_model' | 'model_path'> & {
        readonly session_id: string
        readonly sampling_session_seq_id: number
      },
    ) => {
      const client = await requireClientSession(db, principal, request.session_id)
      const id = `${client.id}:sample:${request.sampling_session_seq_id}`
      await insertSampler(db, await describe(principal, { id, clientSessionId: client.id }, request))
      return { type: 'create_sampling_session' as const, sampling_session_id: id }
    },
    get: async (principal: Principal, id: string) => {
      const { baseModel, modelPath } = await requireSampler(principal, id)
      return { sampler_id: id, base_model: baseModel, model_path: modelPath }
    },
    /** What a request samples from: the sampler that it names, or one for itself. */
    resolve: async (principal: Principal, request: SampleRequest): Promise<SamplerRecord> => {
      const id = request.sampling_session_id
      if (id !== null && id !== undefined) return requireSampler(principal, id)
      return describe(principal, { id: ids.uuid(), clientSessionId: '' }, request)
    },
    /** The adapter that it answers with; null: the base model alone. */
    adapterOf: async ({ weightsId, id }: SamplerRecord): Promise<AdapterRef | null> => {
      if (weightsId === null) return null
      const weights = await findSessionWeights(db, { id: weightsId })
      if (weights !== null) return toAdapter(context.blobs, weights)
      throw new NotFoundError('weights_not_found', `the weights of sampler "${id}" were deleted, or have expired`, {
        hint: 'save weights for sampling again',
      })
    },
  }
}

async function toAdapter(blobs: ServiceContext['blobs'], weights: SessionWeightsRecord): Promise<AdapterRef> {
  const checkpoint = `weights "${weights.name ?? weights.id}" of training run "${weights.sessionId}"`
  return {
    digest: digestOfAdapter(weights.files),
    checkpoint,
    files: await toLocalFiles(
      blobs,
      checkpoint,
      weights.files.filter(({ name }) => SERVED_FILES.includes(name)),
    ),
  }
}
