/**
 * Training runs that begin: with a new adapter, with a checkpoint of a model, or with weights that were saved. A run is stored
 * with its first request, which is done.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { CreateTrainingSession, LoadWeightsRequest } from '#contract/wire/training/training-loops.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import type { BaseModelEntry, Principal, ServiceContext } from '#service/operations/context.js'
import { requireModel } from '#service/operations/models/models.js'
import { readAdapterShape } from '#service/operations/training/adapter-shape.js'
import { requestIdOf } from '#service/queue/sessions/session-runner.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import type { Database } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { ClientSessionRecord } from '#service/storage/training-sessions/client-sessions.js'
import { insertSessionRequest } from '#service/storage/training-sessions/session-requests.js'
import {
  findTrainingSession,
  insertTrainingSession,
  type NewTrainingSession,
  putSessionState,
  type StoredFile,
} from '#service/storage/training-sessions/training-sessions.js'
import { notServed, requireClientSession, requireWeights } from './errors.js'
import { assertOptimizer, assertOwnWeights } from './loaded-weights.js'

/** What a client asks for a result with. */
export interface Future {
  readonly request_id: string
  readonly model_id: string
}

type NewRunsContext = Pick<ServiceContext, 'db' | 'blobs' | 'baseModels' | 'trainWorkers' | 'dispatcher'>

/** Project of models that runs make, when the key has none. */
const PROJECT = 'tinker'
/** Tinker's own: an adapter's output is scaled by this over its rank. */
const ALPHA = 32

export function createNewRuns(context: NewRunsContext) {
  return {
    create: (principal: Principal, request: CreateTrainingSession) => create(context, principal, request),
    /** A run that begins with saved weights. */
    createFromWeights: (principal: Principal, request: LoadWeightsRequest) =>
      createFromWeights(context, principal, request),
  }
}

async function create(context: NewRunsContext, principal: Principal, request: CreateTrainingSession): Promise<Future> {
  const { db } = context
  const client = await requireClientSession(db, principal, request.session_id)
  const { name } = requireBase(context, request.base_model)
  assertTrains(context, request.optimizer_config?.type)
  const lora = request.lora_config
  const step = request.trainyard_step
  if (step !== null && step !== undefined)
    return createFromCheckpoint(context, principal, { client, request: { ...request, step } })
  if (lora === null || lora === undefined) {
    throw notServed('training of all weights', 'give lora_config: adapters are trained')
  }
  if (!lora.train_mlp && !lora.train_attn) {
    throw new InvalidRequestError(
      'invalid_value',
      'lora_config trains nothing that can be trained here: train_mlp and train_attn are both false',
      { hint: 'the output head (train_unembed) stays as it is here' },
    )
  }
  const id = `${client.id}:train:${request.model_seq_id}`
  const session: NewTrainingSession = {
    id,
    entity: client.entity,
    ...(await placeOf(context, principal, { ...client, baseModel: name, modelId: request.trainyard_model_id })),
    clientSessionId: client.id,
    baseModel: name,
    rank: lora.rank,
    alpha: ALPHA,
    seed: lora.seed ?? id,
    trainsMlp: lora.train_mlp,
    trainsAttention: lora.train_attn,
    userMetadata: request.user_metadata ?? {},
  }
  return begin(db, session, { files: [], result: { type: 'create_model' } })
}

/** A run that begins with the adapter of a model's checkpoint, whatever made it. */
async function createFromCheckpoint(
  context: NewRunsContext,
  principal: Principal,
  {
    client,
    request,
  }: { readonly client: ClientSessionRecord; readonly request: CreateTrainingSession & { readonly step: number } },
): Promise<Future> {
  const { db } = context
  const { trainyard_model_id: modelId, base_model: baseModel, step, lora_config: lora } = request
  if (modelId === null || modelId === undefined) {
    throw new InvalidRequestError('missing_model', 'trainyard_step needs trainyard_model_id, the model it is a step of')
  }
  if (lora !== null && lora !== undefined) {
    throw new InvalidRequestError(
      'invalid_value',
      'lora_config has no effect beside trainyard_step, whose adapter has a shape',
      {
        hint: 'leave lora_config out',
      },
    )
  }
  const place = await placeOf(context, principal, { project: client.project, baseModel, modelId })
  const checkpoint = await findCheckpoint(db, modelId, step)
  const shape = checkpoint === null ? null : await readAdapterShape(context, checkpoint)
  if (checkpoint === null || shape === null) {
    throw new NotFoundError('checkpoint_not_found', `model "${modelId}" has no checkpoint of step ${step}`)
  }
  const id = `${client.id}:train:${request.model_seq_id}`
  const session: NewTrainingSession = {
    id,
    entity: client.entity,
    ...place,
    clientSessionId: client.id,
    baseModel,
    ...shape,
    seed: id,
    trainsMlp: true,
    trainsAttention: true,
    userMetadata: request.user_metadata ?? {},
  }
  const files = checkpoint.files.filter(({ name }) => name === ADAPTER_CONFIG_FILE || name === ADAPTER_WEIGHTS_FILE)
  return begin(db, session, { files, result: { type: 'create_model' } })
}

async function createFromWeights(
  context: NewRunsContext,
  principal: Principal,
  request: LoadWeightsRequest,
): Promise<Future> {
  const { db } = context
  assertOwnWeights(request)
  const client = await requireClientSession(db, principal, request.session_id ?? '')
  const { weights, session: source } = await requireWeights(db, principal, request.path)
  assertTrains(context, request.optimizer_config?.type)
  assertOptimizer(request, weights.kind)
  const { baseModel, rank, alpha, seed, trainsMlp, trainsAttention } = source
  if ((request.base_model ?? baseModel) !== baseModel) {
    throw new InvalidRequestError(
      'base_model_mismatch',
      `the weights are of base model "${baseModel}", not "${request.base_model?.slice(0, 200)}"`,
    )
  }
  requireBase(context, baseModel)
  const id = `${client.id}:train:${request.model_seq_id ?? 0}`
  const session: NewTrainingSession = {
    id,
    entity: client.entity,
    ...(await placeOf(context, principal, { ...client, baseModel, modelId: request.trainyard_model_id })),
    clientSessionId: client.id,
    baseModel,
    rank,
    alpha,
    seed,
    trainsMlp,
    trainsAttention,
    userMetadata: request.user_metadata ?? {},
  }
  const files = weights.files.filter(
    ({ name }) => name !== MANIFEST_FILE && (request.optimizer || !name.startsWith('optimizer')),
  )
  return begin(db, session, { files, result: { type: 'load_weights', path: request.path } })
}

/** Where checkpoints of a run go; its own model is made with the first. */
async function placeOf(
  context: NewRunsContext,
  principal: Principal,
  {
    project,
    baseModel,
    modelId,
  }: { readonly project: string | null; readonly baseModel: string; readonly modelId: string | null | undefined },
): Promise<Pick<NewTrainingSession, 'project' | 'modelId'>> {
  if (modelId === null || modelId === undefined) return { project: project ?? PROJECT, modelId: null }
  const model = await requireModel(context, principal, modelId)
  if (model.baseModel === baseModel) return { project: model.project, modelId: model.id }
  throw new InvalidRequestError(
    'base_model_mismatch',
    `model "${model.name}" has base model "${model.baseModel}", the run has "${baseModel}"`,
    { param: 'trainyard_model_id' },
  )
}

export function requireBase({ baseModels }: Pick<ServiceContext, 'baseModels'>, name: string): BaseModelEntry {
  const base = baseModels.find((entry) => entry.name === name)
  if (base !== undefined) return base
  const known = baseModels.map((entry) => `"${entry.name}"`).join(', ')
  throw new InvalidRequestError(
    'unknown_base_model',
    `base_model must be one of ${known}, got "${name.slice(0, 200)}"`,
    { param: 'base_model', hint: 'trainyard base-models add adds one' },
  )
}

function assertTrains(
  { trainWorkers, dispatcher }: Pick<ServiceContext, 'trainWorkers' | 'dispatcher'>,
  optimizer: string | undefined,
): void {
  if (optimizer !== undefined && optimizer !== 'adamw') {
    throw notServed(`optimizer "${optimizer.slice(0, 60)}"`, 'leave optimizer_config out: adamw trains')
  }
  if (trainWorkers > 0 || dispatcher.remoteWorkers().length > 0) return
  throw new InvalidRequestError(
    'training_disabled',
    'this server trains nothing: it runs with --train-workers 0, and no worker of another machine asks for work',
    { hint: 'start one with trainyard worker, or the server without --train-workers 0' },
  )
}

/** Stores a run with its first request, which is done; a repeated one is the same. */
async function begin(
  db: Database,
  session: NewTrainingSession,
  { files, result }: { readonly files: readonly StoredFile[]; readonly result: Readonly<Record<string, unknown>> },
): Promise<Future> {
  const { id } = session
  await inTransaction(db, async (transaction) => {
    if ((await findTrainingSession(transaction, id)) !== null) return
    await insertTrainingSession(transaction, session)
    if (files.length > 0) await putSessionState(transaction, id, { files, stateSeq: 0 })
    const create = { sessionId: id, seq: 0, kind: 'create', detail: {}, body: null } as const
    await insertSessionRequest(transaction, create, { result: { ...result, model_id: id } })
  })
  return { request_id: requestIdOf(id, 0), model_id: id }
}
