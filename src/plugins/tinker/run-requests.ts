/**
 * Requests of a training run: each is checked, stored at its place in the order of its run, and answered at
 * once; the run's worker does the rest (`service/queue/sessions/session-runner.ts`). A refused request keeps its number too,
 * because the client goes on with the next one: it fails under it, and so does one whose body cannot be read but for its number.
 */
import { AppError, fullMessage, InvalidRequestError } from '#base/errors/errors.js'
import { RequestValidationError } from '#contract/wire/errors.js'
import type {
  LoadWeightsRequest,
  OptimStepRequest,
  SaveForSamplerRequest,
  SaveWeightsRequest,
} from '#contract/wire/training/training-loops.js'
import { checkLoss } from '#formats/training-loop/loss-inputs.js'
import { fromPlainError } from '#service/bodies/thread-protocol.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import { requestIdOf } from '#service/queue/sessions/session-runner.js'
import type { SaveDetail } from '#service/queue/sessions/session-saves.js'
import type { Database } from '#service/storage/database.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import {
  insertSessionRequest,
  type NewSessionRequest,
  type RequestEnd,
  type RequestKind,
} from '#service/storage/training-sessions/session-requests.js'
import { assertRoom, notServed, requireTrainingSession, requireWeights } from './errors.js'
import { assertOptimizer, assertOwnWeights, assertSameShape } from './loaded-weights.js'
import type { Future } from './new-runs.js'
import type { LossRead } from './read-loss.js'
import type { SaveExternalRequest } from './wire.js'

/** Requests of one run that may wait: a client that pipelines sends hundreds. */
const MOST_WAITING = 4096

/** A request as it is stored, and why it is refused. */
interface Numbered {
  readonly request: NewSessionRequest
  readonly refusal?: unknown
}

export function createRunRequests({ db, sessions }: Pick<ServiceContext, 'db' | 'sessions'>) {
  /** Stores a request in its place; a repeated one is the same. */
  async function enqueue(principal: Principal, { request, refusal }: Numbered): Promise<Future> {
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

  return {
    /**
     * Stores a request whose body was refused as failed, under the number that it has.
     *
     * @throws the refusal, where it does not say of which run it is and which number it has
     */
    refuse: (principal: Principal, kind: RequestKind, refusal: unknown): Promise<Future> => {
      const { model_id: sessionId, seq_id: seq } = refusal instanceof RequestValidationError ? refusal.told : {}
      if (typeof sessionId !== 'string' || !isNumber(seq)) throw refusal
      return enqueue(principal, { request: { sessionId, seq, kind, detail: {}, body: null }, refusal })
    },
    /** Before the body of a request of the run is taken. @throws {NotFoundError} `training_run_not_found` */
    requireRun: (principal: Principal, id: string) => requireTrainingSession(db, principal, id),
    /** @param body a `ForwardBackwardRequest`, of which `read` is what was read */
    forwardBackward: async (principal: Principal, read: LossRead, body: Uint8Array): Promise<Future> =>
      enqueue(principal, toLoss(read, body)),
    optimStep: (principal: Principal, request: OptimStepRequest) => enqueue(principal, toOptimStep(request)),
    save: (principal: Principal, request: SaveWeightsRequest) => enqueue(principal, toSave(request)),
    saveForSampler: (principal: Principal, request: SaveForSamplerRequest) =>
      enqueue(principal, toSaveForSampler(request)),
    saveExternal: (principal: Principal, request: SaveExternalRequest) => enqueue(principal, toSaveExternal(request)),
    load: async (principal: Principal, request: LoadWeightsRequest) =>
      enqueue(principal, await toLoad(db, principal, request)),
  }
}

/** @throws the refusal, where it does not say of which run it is and which number it has */
function toLoss(read: LossRead, body: Uint8Array): Numbered {
  if (!('head' in read)) {
    const { place } = read
    const refusal = fromPlainError(read.refusal)
    if (place === null || !isNumber(place.seqId)) throw refusal
    const { modelId: sessionId, seqId: seq } = place
    return { request: { sessionId, seq, kind: 'forward_backward', detail: {}, body: null }, refusal }
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
  return { request, refusal }
}

function toOptimStep(given: OptimStepRequest): Numbered {
  const { model_id: sessionId, seq_id: seq, adam_params: settings, optimizer_params: other } = given
  const refusal =
    settings === null || settings === undefined
      ? notServed(`optimizer "${other?.type ?? 'none'}"`, 'send adam_params: AdamW is the optimizer here')
      : undefined
  return { request: { sessionId, seq, kind: 'optim_step', detail: { settings: settings ?? {} }, body: null }, refusal }
}

function toSave(given: SaveWeightsRequest): Numbered {
  const detail: SaveDetail = {
    name: given.path ?? String(given.seq_id).padStart(6, '0'),
    isOverwriting: given.overwrite === true,
    ttlSeconds: given.ttl_seconds ?? null,
    userMetadata: given.user_metadata ?? {},
  }
  const { model_id: sessionId, seq_id: seq } = given
  return { request: { sessionId, seq, kind: 'save_weights', detail: { ...detail }, body: null } }
}

function toSaveForSampler(given: SaveForSamplerRequest): Numbered {
  const { model_id: sessionId, seq_id: seq } = given
  const detail: SaveDetail = {
    name: given.path ?? null,
    samplerId: `${sessionId}:sampler:${given.sampling_session_seq_id ?? seq}`,
    ttlSeconds: given.ttl_seconds ?? null,
    userMetadata: given.user_metadata ?? {},
  }
  return { request: { sessionId, seq, kind: 'save_weights_for_sampler', detail: { ...detail }, body: null } }
}

function toSaveExternal(given: SaveExternalRequest): Numbered {
  const { model_id: sessionId, seq_id: seq, path, age_encryption_recipients: recipients } = given
  const detail: SaveDetail = { name: path, ttlSeconds: given.ttl_seconds ?? null, userMetadata: {} }
  const refusal =
    (recipients ?? []).length === 0
      ? undefined
      : notServed('age_encryption_recipients', 'leave it out and encrypt the files yourself')
  return { request: { sessionId, seq, kind: 'save_weights_external', detail: { ...detail }, body: null }, refusal }
}

/** @throws {NotFoundError} `training_run_not_found` */
async function toLoad(db: Database, principal: Principal, given: LoadWeightsRequest): Promise<Numbered> {
  const sessionId = given.model_id ?? ''
  const seq = given.seq_id ?? 0
  let detail: Readonly<Record<string, unknown>> = {}
  let refusal: unknown
  try {
    const target = await requireTrainingSession(db, principal, sessionId)
    assertOwnWeights(given)
    const { weights, session } = await requireWeights(db, principal, given.path)
    assertOptimizer(given, weights.kind)
    assertSameShape(target, session)
    detail = { path: given.path, sessionId, weightsId: weights.id, hasOptimizer: given.optimizer }
  } catch (error) {
    if (!(error instanceof AppError) || error.code === 'training_run_not_found') throw error
    refusal = error
  }
  return { request: { sessionId, seq, kind: 'load_weights', detail, body: null }, refusal }
}

/** Whether it may be the number of a request. */
function isNumber(seq: unknown): seq is number {
  return typeof seq === 'number' && Number.isSafeInteger(seq) && seq >= 1
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
