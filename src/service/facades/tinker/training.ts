/**
 * Training requests of the Tinker client: each is checked, stored at its place in the order of its run, and answered at
 * once; the run's worker does the rest (`queue/sessions/session-runner.ts`). A refused request keeps its number too,
 * because the client goes on with the next one: it fails under it, and so does one whose body cannot be read but for its number.
 */
import { AppError, fullMessage, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type {
  CreateTrainingSession,
  LoadWeightsRequest,
  OptimStepRequest,
  SaveExternalRequest,
  SaveForSamplerRequest,
  SaveWeightsRequest,
} from '#contract/wire/compatible/tinker.js'
import { RequestValidationError } from '#contract/wire/errors.js'
import { ADAPTER_CONFIG_FILE, ADAPTER_WEIGHTS_FILE, MANIFEST_FILE } from '#formats/checkpoint-manifest.js'
import { checkLoss } from '#formats/tinker/loss-inputs.js'
import { fromPlainError, type LossRead } from '#service/bodies/thread-protocol.js'
import { requestIdOf } from '#service/queue/sessions/session-runner.js'
import type { SaveDetail } from '#service/queue/sessions/session-saves.js'
import { findCheckpoint } from '#service/storage/checkpoints.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { ClientSessionRecord } from '#service/storage/tinker/client-sessions.js'
import {
  insertSessionRequest,
  type NewSessionRequest,
  type RequestEnd,
  type RequestKind,
} from '#service/storage/tinker/session-requests.js'
import {
  findTrainingSession,
  insertTrainingSession,
  type NewTrainingSession,
  putSessionState,
  type StoredFile,
} from '#service/storage/tinker/training-sessions.js'
import type { BaseModelEntry, Principal, ServiceContext } from '../../operations/context.js'
import { requireModel } from '../../operations/models/models.js'
import { readAdapterShape } from '../../operations/training/adapter-shape.js'
import { assertRoom, notServed, requireClientSession, requireTrainingSession, requireWeights } from './errors.js'

/** What a client asks for a result with. */
export interface Future {
  readonly request_id: string
  readonly model_id: string
}

export type TrainingContext = Pick<
  ServiceContext,
  'db' | 'blobs' | 'sessions' | 'baseModels' | 'modelFacts' | 'trainWorkers' | 'dispatcher'
>

/** Project of models that runs make, when the key has none. */
const PROJECT = 'tinker'
/** Tinker's own: an adapter's output is scaled by this over its rank. */
const ALPHA = 32
/** Requests of one run that may wait: a client that pipelines sends hundreds. */
const MOST_WAITING = 4096

export function createTrainingRequests(context: TrainingContext) {
  const { db, sessions } = context

  /** Stores a request in its place; a repeated one is the same. */
  async function enqueue(principal: Principal, request: NewSessionRequest, refusal?: unknown): Promise<Future> {
    const { sessionId, seq } = request
    await inTransaction(db, async (transaction) => {
      // in the transaction: a request that is stored as waiting after its session ended would wait for ever
      const { error, nextSeq } = await requireTrainingSession(transaction, principal, sessionId)
      if (seq < 1) throw new InvalidRequestError('invalid_value', `seq_id must be at least 1, got ${seq}`)
      // those before `nextSeq` are done, and their results may be gone: stored once more they would wait for ever
      if (seq < nextSeq) return
      assertRoom(seq - nextSeq, MOST_WAITING)
      await insertSessionRequest(transaction, request, error === null ? endOf(refusal) : { error, isUserError: false })
    })
    sessions.notify(sessionId)
    return { request_id: requestIdOf(sessionId, seq), model_id: sessionId }
  }

  /** Where checkpoints of a run go; its own model is made with the first. */
  async function placeOf(
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

  function requireBase(name: string): BaseModelEntry {
    const base = context.baseModels.find((entry) => entry.name === name)
    if (base !== undefined) return base
    const known = context.baseModels.map((entry) => `"${entry.name}"`).join(', ')
    throw new InvalidRequestError(
      'unknown_base_model',
      `base_model must be one of ${known}, got "${name.slice(0, 200)}"`,
      { param: 'base_model', hint: 'trainyard base-models add adds one' },
    )
  }

  function assertTrains(optimizer: string | undefined): void {
    if (optimizer !== undefined && optimizer !== 'adamw') {
      throw notServed(`optimizer "${optimizer.slice(0, 60)}"`, 'leave optimizer_config out: adamw trains')
    }
    if (context.trainWorkers > 0 || context.dispatcher.remoteWorkers().length > 0) return
    throw new InvalidRequestError(
      'training_disabled',
      'this server trains nothing: it runs with --train-workers 0, and no worker of another machine asks for work',
      { hint: 'start one with trainyard worker, or the server without --train-workers 0' },
    )
  }

  /** Stores a run with its first request, which is done; a repeated one is the same. */
  async function begin(
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

  async function create(principal: Principal, request: CreateTrainingSession): Promise<Future> {
    const client = await requireClientSession(db, principal, request.session_id)
    const { name } = requireBase(request.base_model)
    assertTrains(request.optimizer_config?.type)
    const lora = request.lora_config
    const step = request.trainyard_step
    if (step !== null && step !== undefined) return createFromCheckpoint(principal, client, { ...request, step })
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
      ...(await placeOf(principal, { ...client, baseModel: name, modelId: request.trainyard_model_id })),
      clientSessionId: client.id,
      baseModel: name,
      rank: lora.rank,
      alpha: ALPHA,
      seed: lora.seed ?? id,
      trainsMlp: lora.train_mlp,
      trainsAttention: lora.train_attn,
      userMetadata: request.user_metadata ?? {},
    }
    return begin(session, { files: [], result: { type: 'create_model' } })
  }

  /** A run that begins with the adapter of a model's checkpoint, whatever made it. */
  async function createFromCheckpoint(
    principal: Principal,
    client: ClientSessionRecord,
    request: CreateTrainingSession & { readonly step: number },
  ): Promise<Future> {
    const { trainyard_model_id: modelId, base_model: baseModel, step, lora_config: lora } = request
    if (modelId === null || modelId === undefined) {
      throw new InvalidRequestError(
        'missing_model',
        'trainyard_step needs trainyard_model_id, the model it is a step of',
      )
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
    const place = await placeOf(principal, { project: client.project, baseModel, modelId })
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
    return begin(session, { files, result: { type: 'create_model' } })
  }

  async function createFromWeights(principal: Principal, request: LoadWeightsRequest): Promise<Future> {
    const client = await requireClientSession(db, principal, request.session_id ?? '')
    const { weights, session: source } = await requireWeights(db, principal, request.path)
    assertTrains(request.optimizer_config?.type)
    assertOptimizer(request, weights.kind)
    const { baseModel, rank, alpha, seed, trainsMlp, trainsAttention } = source
    if ((request.base_model ?? baseModel) !== baseModel) {
      throw new InvalidRequestError(
        'base_model_mismatch',
        `the weights are of base model "${baseModel}", not "${request.base_model?.slice(0, 200)}"`,
      )
    }
    requireBase(baseModel)
    const id = `${client.id}:train:${request.model_seq_id ?? 0}`
    const session: NewTrainingSession = {
      id,
      entity: client.entity,
      ...(await placeOf(principal, { ...client, baseModel, modelId: request.trainyard_model_id })),
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
    return begin(session, { files, result: { type: 'load_weights', path: request.path } })
  }

  return {
    create,
    info: async (principal: Principal, id: string) => {
      const session = await requireTrainingSession(db, principal, id)
      const name = session.baseModel
      const facts = await context.modelFacts.factsOf(requireBase(name))
      return {
        type: 'get_info' as const,
        model_id: session.id,
        model_name: name,
        model_data: { arch: facts.architecture, model_name: name, tokenizer_id: name },
        is_lora: true,
        lora_rank: session.rank,
      }
    },
    /**
     * Stores a request whose body was refused as failed, under the number that it has.
     *
     * @throws the refusal, where it does not say of which run it is and which number it has
     */
    refuse: (principal: Principal, kind: RequestKind, refusal: unknown): Promise<Future> => {
      const { model_id: sessionId, seq_id: seq } = refusal instanceof RequestValidationError ? refusal.told : {}
      if (typeof sessionId !== 'string' || !isNumber(seq)) throw refusal
      return enqueue(principal, { sessionId, seq, kind, detail: {}, body: null }, refusal)
    },
    /** Before the body of a request of the run is taken. @throws {NotFoundError} `training_run_not_found` */
    requireRun: (principal: Principal, id: string) => requireTrainingSession(db, principal, id),
    /** @param body a `ForwardBackwardRequest`, of which `read` is what was read */
    forwardBackward: async (principal: Principal, read: LossRead, body: Uint8Array): Promise<Future> => {
      if (!('head' in read)) {
        const { place } = read
        const refusal = fromPlainError(read.refusal)
        if (place === null || !isNumber(place.seqId)) throw refusal
        const { modelId: sessionId, seqId: seq } = place
        return enqueue(principal, { sessionId, seq, kind: 'forward_backward', detail: {}, body: null }, refusal)
      }
      const { head } = read
      const refusal = failureOf(() => checkLoss(head))
      const request: NewSessionRequest = {
        sessionId: head.modelId,
        seq: head.seqId,
        kind: head.isForwardOnly ? 'forward' : 'forward_backward',
        detail: { loss: head.lossName, rows: head.datumCount },
        body,
      }
      return enqueue(principal, request, refusal)
    },
    optimStep: (principal: Principal, request: OptimStepRequest): Promise<Future> => {
      const { adam_params: settings, optimizer_params: other } = request
      const refusal =
        settings === null || settings === undefined
          ? notServed(`optimizer "${other?.type ?? 'none'}"`, 'send adam_params: AdamW is the optimizer here')
          : undefined
      const detail = { settings: settings ?? {} }
      const step = { sessionId: request.model_id, seq: request.seq_id, kind: 'optim_step', detail, body: null } as const
      return enqueue(principal, step, refusal)
    },
    save: (principal: Principal, request: SaveWeightsRequest): Promise<Future> => {
      const detail: SaveDetail = {
        name: request.path ?? String(request.seq_id).padStart(6, '0'),
        isOverwriting: request.overwrite === true,
        ttlSeconds: request.ttl_seconds ?? null,
        userMetadata: request.user_metadata ?? {},
      }
      const { model_id: sessionId, seq_id: seq } = request
      return enqueue(principal, { sessionId, seq, kind: 'save_weights', detail: { ...detail }, body: null })
    },
    saveForSampler: (principal: Principal, request: SaveForSamplerRequest): Promise<Future> => {
      const { model_id: sessionId, seq_id: seq } = request
      const detail: SaveDetail = {
        name: request.path ?? null,
        samplerId: `${sessionId}:sampler:${request.sampling_session_seq_id ?? seq}`,
        ttlSeconds: request.ttl_seconds ?? null,
        userMetadata: request.user_metadata ?? {},
      }
      return enqueue(principal, { sessionId, seq, kind: 'save_weights_for_sampler', detail: { ...detail }, body: null })
    },
    saveExternal: (principal: Principal, request: SaveExternalRequest): Promise<Future> => {
      const { model_id: sessionId, seq_id: seq, path, age_encryption_recipients: recipients } = request
      const detail: SaveDetail = { name: path, ttlSeconds: request.ttl_seconds ?? null, userMetadata: {} }
      const save = { sessionId, seq, kind: 'save_weights_external', detail: { ...detail }, body: null } as const
      const refusal =
        (recipients ?? []).length === 0
          ? undefined
          : notServed('age_encryption_recipients', 'leave it out and encrypt the files yourself')
      return enqueue(principal, save, refusal)
    },
    load: async (principal: Principal, request: LoadWeightsRequest): Promise<Future> => {
      if (request.session_id !== null && request.session_id !== undefined) {
        assertOwnWeights(request)
        return createFromWeights(principal, request)
      }
      const sessionId = request.model_id ?? ''
      const seq = request.seq_id ?? 0
      let detail: Readonly<Record<string, unknown>> = {}
      let refusal: unknown
      try {
        const target = await requireTrainingSession(db, principal, sessionId)
        assertOwnWeights(request)
        const { weights, session } = await requireWeights(db, principal, request.path)
        assertOptimizer(request, weights.kind)
        assertSameShape(target, session)
        detail = { path: request.path, sessionId, weightsId: weights.id, hasOptimizer: request.optimizer }
      } catch (error) {
        if (!(error instanceof AppError) || error.code === 'training_run_not_found') throw error
        refusal = error
      }
      return enqueue(principal, { sessionId, seq, kind: 'load_weights', detail, body: null }, refusal)
    },
    weightsInfo: async (principal: Principal, path: string) => {
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

/** Whether it may be the number of a request. */
function isNumber(seq: unknown): seq is number {
  return typeof seq === 'number' && Number.isSafeInteger(seq) && seq >= 1
}

function assertOwnWeights({ weights_access_token: token }: LoadWeightsRequest): void {
  if (token !== null && token !== undefined) {
    throw notServed('weights_access_token', 'weights of other accounts cannot be loaded')
  }
}

function assertOptimizer({ optimizer, path }: LoadWeightsRequest, kind: string): void {
  if (!optimizer || kind === 'weights') return
  throw new InvalidRequestError('no_optimizer_state', `"${path.slice(0, 300)}" has no state of the optimizer`, {
    hint: 'weights saved with save_state have one',
  })
}

type Shape = Pick<NewTrainingSession, 'baseModel' | 'rank' | 'alpha'>

function assertSameShape(target: Shape, source: Shape): void {
  if (target.baseModel === source.baseModel && target.rank === source.rank && target.alpha === source.alpha) return
  const name = ({ baseModel, rank }: Shape): string => `base model "${baseModel}" and rank ${rank}`
  throw new InvalidRequestError(
    'adapter_shape_fixed',
    `the weights are of ${name(source)}, the training run has ${name(target)}`,
    { hint: 'create a training client from the state instead' },
  )
}

function failureOf(check: () => unknown): unknown {
  try {
    check()
    return undefined
  } catch (error) {
    return error
  }
}

/** Null for a request that is not refused. @throws what is no refusal */
function endOf(refusal: unknown): RequestEnd | null {
  if (refusal === undefined) return null
  if (!(refusal instanceof AppError)) throw refusal
  const error = refusal instanceof RequestValidationError ? refusal.sentence : fullMessage(refusal)
  return { error, isUserError: true }
}
