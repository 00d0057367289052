/**
 * Training sessions of the entity: listed, and ended by whoever owns them. What clients of training loops ask of one is a
 * plugin's.
 */
import { NotFoundError } from '#base/errors/errors.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import type { ListTrainingSessionsQuery, TrainingSession } from '#contract/wire/training/training-sessions.js'
import type { Peers } from '#service/queue/peers.js'
import { countWaitingRequests } from '#service/storage/training-sessions/session-requests.js'
import {
  findTrainingSession,
  pageTrainingSessions,
  type TrainingSessionRecord,
} from '#service/storage/training-sessions/training-sessions.js'
import { checkEntity, checkProject, isOwn } from '../access/tenant.js'
import type { Principal, ServiceContext } from '../context.js'

export interface TrainingSessionService {
  /** Newest first. */
  list(principal: Principal, query: ListTrainingSessionsQuery): Promise<List<TrainingSession>>
  /** @throws {NotFoundError} `training_session_not_found` */
  get(principal: Principal, id: string): Promise<TrainingSession>
  /**
   * Stops a session: what waits fails, its worker is given back, later requests are refused. What it saved stays.
   *
   * @throws {NotFoundError} `training_session_not_found`
   */
  end(principal: Principal, id: string): Promise<TrainingSession>
}

export function createTrainingSessionService(
  { db, sessions }: Pick<ServiceContext, 'db' | 'sessions'>,
  peers: Pick<Peers, 'heldByOthers'>,
): TrainingSessionService {
  async function isHeldElsewhere({ id, serverId }: TrainingSessionRecord): Promise<boolean> {
    // a server that was killed for good stays in the row
    return serverId !== null && (await peers.heldByOthers([id])).length > 0
  }

  async function toWire(session: TrainingSessionRecord): Promise<TrainingSession> {
    const here = sessions.stateOf(session.id)
    const state = here === 'resting' && (await isHeldElsewhere(session)) ? 'live' : here
    return {
      object: 'training_session',
      id: session.id,
      entity: session.entity,
      project: session.project,
      base_model: session.baseModel,
      model_id: session.modelId,
      status: session.error !== null ? 'stopped' : state === 'live' ? 'running' : state,
      error: session.error,
      lora_rank: session.rank,
      requests: session.nextSeq - 1,
      waiting_requests: await countWaitingRequests(db, session.id),
      optimizer_steps: session.stepCount,
      created_at: new Date(session.createdAtMs).toISOString(),
      last_request_at: new Date(session.usedAtMs).toISOString(),
    }
  }

  async function requireOwn(principal: Principal, id: string): Promise<TrainingSessionRecord> {
    const session = await findTrainingSession(db, id)
    if (session !== null && isOwn(principal, session)) return session
    throw new NotFoundError('training_session_not_found', `training session "${id.slice(0, 200)}" was not found`, {
      hint: 'trainyard sessions list shows those that there are',
    })
  }

  return {
    list: async (principal, query) => {
      const page = await pageTrainingSessions(db, {
        entity: checkEntity(principal, query.entity ?? ''),
        project: checkProject(principal, query.project),
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      return toList(await Promise.all(page.items.map(toWire)), page.hasMore)
    },
    get: async (principal, id) => toWire(await requireOwn(principal, id)),
    end: async (principal, id) => {
      const session = await requireOwn(principal, id)
      // one that cannot go on anyway stays as it is
      if (session.error === null) await sessions.end(id, 'its owner ended it')
      return toWire(await requireOwn(principal, id))
    },
  }
}
