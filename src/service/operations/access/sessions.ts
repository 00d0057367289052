/**
 * Sessions of browsers: what a page signs in with instead of a key. No cookie stands for one, so no page of others can use it.
 *
 * A session begins with an API key, or with a code that a key made: single use, ten minutes, so that it may stand in an address.
 */
import { AppError, NotFoundError } from '#base/errors/errors.js'
import { KEY_SCOPES, type KeyScope } from '#contract/wire/access/key-words.js'
import type {
  CreatedSession,
  CreateSessionRequest,
  DeletedSession,
  ExchangeCodeRequest,
  Session,
} from '#contract/wire/access/sessions.js'
import { DEFAULT_PAGE_LIMIT, type List, type PageQuery, toList } from '#contract/wire/list.js'
import { insertOneTime, takeOneTime } from '#service/storage/access/one-time.js'
import {
  deleteSession,
  findSessionById,
  insertSession,
  listSessions,
  newSessionToken,
  type SessionFilter,
  type SessionRecord,
} from '#service/storage/access/sessions.js'
import { findApiKeyById } from '#service/storage/api-keys.js'
import { inTransaction } from '#service/storage/in-transaction.js'
import type { Principal, ServiceContext, Tenant } from '../context.js'
import { ownerOf, requireScope } from './tenant.js'

/** Whose session a code begins. */
export interface CodeOwner extends Tenant {
  readonly keyId: string
  readonly scope: KeyScope
}

export interface SignInCode {
  readonly code: string
  readonly expiresAt: string
}

export interface SessionService {
  /** @throws {AppError} `session_in_use` for a session that asks for another; `insufficient_scope` for more than the key may */
  create(principal: Principal, request: CreateSessionRequest): Promise<CreatedSession>
  /** @throws {AppError} as `create` */
  createCode(principal: Principal): Promise<SignInCode>
  /** A code for whoever starts the server. */
  codeFor(owner: CodeOwner): Promise<SignInCode>
  /** @throws {AppError} `invalid_code` for one that was used, is over or never was, and for one whose key was revoked */
  exchange(request: ExchangeCodeRequest): Promise<CreatedSession>
  /** Those of the key; with scope `admin` those of all keys that it manages. */
  list(principal: Principal, query: PageQuery): Promise<List<Session>>
  /** @throws {NotFoundError} `session_not_found` */
  delete(principal: Principal, id: string): Promise<DeletedSession>
}

const HOUR_MS = 3_600_000
const LIFE_MS = 12 * HOUR_MS
const KEPT_LIFE_MS = 30 * 24 * HOUR_MS
const CODE_LIFE_MS = 600_000

export function createSessionService(context: Pick<ServiceContext, 'db' | 'ids' | 'logger'>): SessionService {
  const { db, ids, logger } = context

  async function begin(owner: CodeOwner, given: Pick<CreateSessionRequest, 'name' | 'is_kept'>) {
    const id = ids.uuid()
    const token = newSessionToken(ids)
    const expiresInMs = given.is_kept === true ? KEPT_LIFE_MS : LIFE_MS
    const session = await inTransaction(db, async (transaction) => {
      // a code may outlive the key that made it
      if ((await findApiKeyById(transaction, owner, owner.keyId)) === null) return null
      const { keyId, scope } = owner
      await insertSession(transaction, { id, keyId, scope, name: given.name ?? '', expiresInMs }, token)
      return findSessionById(transaction, { ...ownerOf(owner), keyId }, id)
    })
    if (session === null) return null
    logger.info({ session_id: id, key_id: owner.keyId, scope: session.scope }, 'session.created')
    return { ...toWireSession(session, id), token }
  }

  async function codeFor({ keyId, scope }: CodeOwner): Promise<SignInCode> {
    const right = { keyId, scope, sessionId: null, usageProject: null, address: null }
    const { secret, expiresAtMs } = await insertOneTime(context, 'sign-in', { right, lifeMs: CODE_LIFE_MS })
    return { code: secret, expiresAt: toIso(expiresAtMs) }
  }

  return {
    create: async (principal, request) => {
      assertKey(principal)
      const scope = request.scope ?? principal.scope
      requireScope(principal, scope)
      const created = await begin({ ...ownerOf(principal), keyId: principal.keyId, scope }, request)
      if (created === null) throw invalidKey()
      return created
    },
    codeFor,
    createCode: async (principal) => {
      assertKey(principal)
      return codeFor({ ...ownerOf(principal), keyId: principal.keyId, scope: principal.scope })
    },
    exchange: async ({ code, ...request }) => {
      const owner = await takeOneTime(db, 'sign-in', code)
      const created = owner === null ? null : await begin(owner, request)
      if (created !== null) return created
      throw new AppError(
        'authentication',
        'invalid_code',
        'the code was used, is older than ten minutes, or never was',
        {
          hint: 'trainyard ui makes another and opens the page with it; an API key does as well',
          param: 'code',
        },
      )
    },
    list: async (principal, query) => {
      const page = await listSessions(db, filterOf(principal), {
        after: query.after,
        limit: query.limit ?? DEFAULT_PAGE_LIMIT,
      })
      return toList(
        page.items.map((session) => toWireSession(session, principal.sessionId)),
        page.hasMore,
      )
    },
    delete: async (principal, id) => {
      const session = await findSessionById(db, filterOf(principal), id)
      if (session === null) {
        throw new NotFoundError('session_not_found', `session "${id.slice(0, 100)}" was not found`, {
          hint: 'it may be over; GET /v1/preview/sessions lists those that are not',
        })
      }
      await deleteSession(db, session.id)
      logger.info({ session_id: session.id, by_key_id: principal.keyId }, 'session.ended')
      return { id: session.id, object: 'session', deleted: true }
    },
  }
}

/** A session that made sessions would never end. */
function assertKey(principal: Principal): void {
  if (principal.sessionId === null) return
  throw new AppError('permission', 'session_in_use', 'a session cannot begin another: this needs an API key', {
    hint: 'send the key itself, or run trainyard ui where it is kept',
  })
}

function invalidKey(): AppError {
  return new AppError('authentication', 'invalid_api_key', 'Invalid authentication credentials')
}

function filterOf(principal: Principal): SessionFilter {
  const isManaging = KEY_SCOPES.indexOf(principal.scope) >= KEY_SCOPES.indexOf('admin')
  return { ...ownerOf(principal), keyId: isManaging ? null : principal.keyId }
}

function toWireSession(session: SessionRecord, currentId: string | null): Session {
  return {
    object: 'session',
    id: session.id,
    name: session.name,
    key_id: session.keyId,
    entity: session.entity,
    project: session.project,
    scope: session.scope,
    created_at: toIso(session.createdAtMs),
    expires_at: toIso(session.expiresAtMs),
    is_current: session.id === currentId,
  }
}

function toIso(timeMs: number): string {
  return new Date(timeMs).toISOString()
}
