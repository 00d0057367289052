/**
 * Refusals of the Tinker API that several of its requests share.
 */
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { isOwn } from '#service/operations/access/tenant.js'
import type { Tenant } from '#service/operations/context.js'
import type { Database } from '#service/storage/database.js'
import { type ClientSessionRecord, findClientSession } from '#service/storage/training-sessions/client-sessions.js'
import {
  findSessionWeights,
  type SessionWeightsRecord,
  WEIGHT_KINDS,
} from '#service/storage/training-sessions/session-weights.js'
import {
  findTrainingSession,
  type TrainingSessionRecord,
} from '#service/storage/training-sessions/training-sessions.js'

/** @throws {NotFoundError} `session_not_found` */
export async function requireClientSession(db: Database, tenant: Tenant, id: string): Promise<ClientSessionRecord> {
  const session = await findClientSession(db, id)
  const isTheirs = session !== null && (tenant.project === null || session.project === tenant.project)
  if (session !== null && isTheirs && session.entity === tenant.entity) return session
  throw new NotFoundError('session_not_found', `session "${id.slice(0, 100)}" was not found`)
}

/** @throws {NotFoundError} `training_run_not_found` */
export async function requireTrainingSession(db: Database, tenant: Tenant, id: string): Promise<TrainingSessionRecord> {
  const session = await findTrainingSession(db, id)
  if (session !== null && isOwn(tenant, session)) return session
  throw unknownTrainingRun(id)
}

export function unknownTrainingRun(id: string): NotFoundError {
  return new NotFoundError('training_run_not_found', `training run "${id.slice(0, 200)}" was not found`)
}

/** Saved weights and the run they are of. @throws {NotFoundError} `weights_not_found`; {InvalidRequestError} `invalid_path` */
export async function requireWeights(
  db: Database,
  tenant: Tenant,
  path: string,
): Promise<{ readonly weights: SessionWeightsRecord; readonly session: TrainingSessionRecord }> {
  const [, sessionId = '', kindText = '', name = ''] = /^tinker:\/\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) ?? []
  const kind = WEIGHT_KINDS.find((known) => known === kindText)
  if (kind === undefined) {
    throw new InvalidRequestError(
      'invalid_path',
      `a path of weights must be tinker://<training run>/weights/<name> or …/sampler_weights/<name>, got "${path.slice(0, 200)}"`,
    )
  }
  const session = await findTrainingSession(db, sessionId)
  const weights = session === null ? null : await findSessionWeights(db, { sessionId, kind, name })
  if (session !== null && weights !== null && isOwn(tenant, session)) return { weights, session }
  throw new NotFoundError('weights_not_found', `weights "${path.slice(0, 300)}" were not found`, {
    hint: 'they were deleted, or have expired; GET /api/v1/checkpoints lists what there is',
  })
}

/** Something of the API that is not served here. */
export function notServed(what: string, hint?: string): InvalidRequestError {
  return new InvalidRequestError('not_served', `${what} is not served here`, { hint })
}

/** @throws {AppError} `queue_full` */
export function assertRoom(waiting: number, most: number): void {
  if (waiting < most) return
  throw new AppError('rate_limited', 'queue_full', `${most} requests of this training run wait already`, {
    details: { retry_after_seconds: 1 },
  })
}
