/**
 * What a new model begins as: its base model, a checkpoint of another model, or an adapter from elsewhere.
 *
 * A fork shares the other checkpoint's files and keeps its step and metrics, so training goes on as it would have there. An
 * imported adapter becomes step 1; it has no optimizer state.
 */

import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { IdSource } from '#base/util/ids.js'
import type { CreateModelRequest } from '#contract/wire/models.js'
import { findCheckpoint, insertCheckpoint, type NewCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { setModelStep } from '#service/storage/models.js'
import type { Principal, ServiceContext } from '../context.js'
import { resolvePolicy } from '../generation/chat/served-models.js'
import { findAdapterFiles } from './adapter-files.js'
import { importAdapter } from './import-adapter.js'

/** The first checkpoint of a new model. */
export type ModelOrigin = Pick<
  NewCheckpoint,
  'step' | 'kind' | 'adapterDigest' | 'metrics' | 'templateKwargs' | 'files'
>

/** What a new model is made of. */
interface Beginning {
  readonly baseModel: string
  /** Null: the base model itself. */
  readonly origin: ModelOrigin | null
  /** Sentences: what of an adapter was not read. */
  readonly notes: readonly string[]
}

/**
 * The base model of a request and what the model begins as.
 *
 * @throws {NotFoundError} `checkpoint_not_found`, `file_not_found`; {InvalidRequestError} `base_model_mismatch`; {WeightsError} what is
 *   wrong with an adapter
 */
export async function originOf(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'logger' | 'exporter' | 'baseModels'>,
  principal: Principal,
  request: CreateModelRequest,
): Promise<Beginning> {
  const baseModel = request.base_model ?? null
  if (typeof request.from_checkpoint === 'string') {
    const fork = await forkOf(context, principal, request.from_checkpoint)
    if (baseModel !== null && baseModel !== fork.baseModel) {
      throw new InvalidRequestError(
        'base_model_mismatch',
        `base_model is "${baseModel}", but "${request.from_checkpoint}" was trained from "${fork.baseModel}"`,
        { param: 'base_model', hint: 'leave base_model out' },
      )
    }
    return { ...fork, notes: [] }
  }
  if (baseModel === null) throw new Error('a request without base_model has from_checkpoint')
  const adapter = request.from_adapter ?? null
  const base = context.baseModels.find(({ name }) => name === baseModel)
  if (adapter === null || base === undefined) return { baseModel, origin: null, notes: [] }
  return { baseModel, ...(await imported(context, principal, { base, adapter })) }
}

/** Publishes the origin as the model's checkpoint; call inside the transaction that inserts the model. */
export async function beginAs(db: Database, ids: IdSource, modelId: string, origin: ModelOrigin): Promise<void> {
  // no job of this server made it; the column wants an id of its own
  await insertCheckpoint(db, { id: ids.uuid(), modelId, jobId: ids.uuid(), ...origin })
  await setModelStep(db, modelId, origin.step)
}

async function forkOf(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  principal: Principal,
  reference: string,
): Promise<{ readonly baseModel: string; readonly origin: ModelOrigin | null }> {
  const notFound = (cause?: unknown): NotFoundError =>
    new NotFoundError('checkpoint_not_found', `from_checkpoint "${reference.slice(0, 200)}" names no checkpoint`, {
      param: 'from_checkpoint',
      hint: 'name a model with :step3 or :latest; GET /v1/preview/models/{id}/checkpoints lists them',
      cause,
    })
  const policy = await resolvePolicy(context, principal, reference).catch((error: unknown) => {
    throw error instanceof NotFoundError ? notFound(error) : error
  })
  if (policy.model === null) throw notFound()
  if (policy.step === 0) return { baseModel: policy.baseModel, origin: null }
  const checkpoint = await findCheckpoint(context.db, policy.model.id, policy.step)
  if (checkpoint === null) throw notFound()
  const { step, kind, adapterDigest, metrics, templateKwargs, files } = checkpoint
  return { baseModel: policy.baseModel, origin: { step, kind, adapterDigest, metrics, templateKwargs, files } }
}

async function imported(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'logger' | 'exporter'>,
  principal: Principal,
  given: {
    readonly base: ServiceContext['baseModels'][number]
    readonly adapter: NonNullable<CreateModelRequest['from_adapter']>
  },
): Promise<{ readonly origin: ModelOrigin; readonly notes: readonly string[] }> {
  const files = await findAdapterFiles(context, principal, given.adapter)
  const adopted = await importAdapter(context, given.base, { keyId: principal.keyId, ...files })
  const { adapterDigest, facts } = adopted
  const origin = { step: 1, kind: null, metrics: {}, templateKwargs: {}, adapterDigest, files: adopted.files }
  return { origin, notes: facts.notes }
}
