/**
 * Making, listing and revoking API keys. A key makes keys of its own entity only, and one bound to a project keys of that
 * project only; a new entity begins with a key made where the data lies (`local-keys.ts`).
 *
 * A key never outlives what made it for good: one that ends makes keys that end with it or before, and what a browser's session makes ends,
 * too, so that a session that was taken is no way in for ever.
 */

import { ConflictError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { SESSION_KEY_LIFE_SECONDS } from '#contract/wire/access/key-words.js'
import type { ApiKey, CreatedKey, CreateKeyRequest, DeletedKey, ListKeysQuery } from '#contract/wire/access/keys.js'
import { DEFAULT_PAGE_LIMIT, type List, toList } from '#contract/wire/list.js'
import { checkName } from '#service/operations/access/names.js'
import { digestOf } from '#service/operations/access/request-digest.js'
import { checkProject, ownerOf } from '#service/operations/access/tenant.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import {
  type ApiKeyRecord,
  deleteApiKey,
  findApiKeyById,
  insertApiKey,
  listApiKeys,
  newApiKey,
} from '#service/storage/api-keys.js'
import { readDatabaseNowMs } from '#service/storage/database.js'
import { findIdempotent, rememberIdempotent } from '#service/storage/idempotency.js'
import { inTransaction } from '#service/storage/in-transaction.js'

interface KeyService {
  /** @throws {ConflictError} `key_already_created` for a repeated `Idempotency-Key`: the key itself was shown once */
  create(principal: Principal, request: CreateKeyRequest, idempotencyKey: string | null): Promise<CreatedKey>
  get(principal: Principal, id: string): Promise<ApiKey>
  /** @throws {AppError} `forbidden` for a project that is not the key's own */
  list(principal: Principal, query: ListKeysQuery): Promise<List<ApiKey>>
  delete(principal: Principal, id: string): Promise<DeletedKey>
}

export function createKeyService({ db, ids, logger }: Pick<ServiceContext, 'db' | 'ids' | 'logger'>): KeyService {
  return {
    create: async (principal, request, idempotencyKey) => {
      const { entity } = principal
      const project = checkProject(principal, request.project ?? undefined) ?? null
      if (project !== null) checkName('project', project)
      const scope =
        idempotencyKey === null ? null : { ...ownerOf(principal), scope: 'keys' as const, key: idempotencyKey }
      const id = ids.uuid()
      const key = newApiKey(ids)
      const digest = digestOf(request)
      const record = await inTransaction(db, async (transaction) => {
        const before = scope === null ? null : await findIdempotent(transaction, scope, digest)
        if (before !== null) throw alreadyCreated(before)
        const own = await findApiKeyById(transaction, principal, principal.keyId)
        const expiresInMs = lifeMs(request, principal, { own, nowMs: await readDatabaseNowMs(transaction) })
        await insertApiKey(
          transaction,
          { id, entity, project, scope: request.scope, name: request.name ?? '', expiresInMs },
          key,
        )
        if (scope !== null) await rememberIdempotent(transaction, scope, digest, id)
        return requireKey(await findApiKeyById(transaction, principal, id), id)
      })
      logger.info({ key_id: id, by_key_id: principal.keyId, scope: request.scope, entity, project }, 'api_key.created')
      return { ...toWireKey(record, principal), key }
    },
    get: async (principal, id) => toWireKey(requireKey(await findApiKeyById(db, principal, id), id), principal),
    list: async (principal, query) => {
      const owner = { entity: principal.entity, project: checkProject(principal, query.project) ?? null }
      const page = await listApiKeys(db, owner, { after: query.after, limit: query.limit ?? DEFAULT_PAGE_LIMIT })
      return toList(
        page.items.map((key) => toWireKey(key, principal)),
        page.hasMore,
      )
    },
    delete: async (principal, id) => {
      const key = requireKey(await findApiKeyById(db, principal, id), id)
      await deleteApiKey(db, principal, key.id)
      logger.info({ key_id: key.id, by_key_id: principal.keyId }, 'api_key.revoked')
      return { id: key.id, object: 'api_key', deleted: true }
    },
  }
}

/**
 * How long a new key lives, milliseconds; null: for ever.
 *
 * @param own the key that asks, or whose session does
 * @throws {InvalidRequestError} `key_life_too_long`
 */
function lifeMs(
  { expires_in_seconds: asked }: CreateKeyRequest,
  { sessionId }: Principal,
  { own, nowMs }: { readonly own: ApiKeyRecord | null; readonly nowMs: number },
): number | null {
  const left = own?.expiresAtMs == null ? Number.POSITIVE_INFINITY : Math.max(1, own.expiresAtMs - nowMs)
  const longest = Math.min(left, sessionId === null ? Number.POSITIVE_INFINITY : SESSION_KEY_LIFE_SECONDS * 1000)
  if (asked == null) return Number.isFinite(longest) ? longest : null
  if (asked * 1000 <= longest) return asked * 1000
  const why = longest === left ? 'the key that makes it ends then' : "a browser's session makes it"
  throw new InvalidRequestError(
    'key_life_too_long',
    `expires_in_seconds must be at most ${Math.floor(longest / 1000)}, as ${why}; got ${asked}`,
    { param: 'expires_in_seconds', hint: 'leave it out for the longest, or make the key with one that does not end' },
  )
}

function toWireKey(key: ApiKeyRecord, principal: Principal): ApiKey {
  return {
    object: 'api_key',
    id: key.id,
    name: key.name,
    key_prefix: key.keyPrefix,
    entity: key.entity,
    project: key.project,
    scope: key.scope,
    created_at: toIso(key.createdAtMs),
    expires_at: key.expiresAtMs === null ? null : toIso(key.expiresAtMs),
    last_used_at: key.lastUsedAtMs === null ? null : toIso(key.lastUsedAtMs),
    is_current: key.id === principal.keyId,
  }
}

function toIso(timeMs: number): string {
  return new Date(timeMs).toISOString()
}

function requireKey(key: ApiKeyRecord | null, id: string): ApiKeyRecord {
  if (key !== null) return key
  throw new NotFoundError('key_not_found', `API key "${id.slice(0, 100)}" was not found`, {
    hint: 'GET /v1/preview/keys lists them by id',
  })
}

function alreadyCreated(id: string): ConflictError {
  return new ConflictError('key_already_created', 'this Idempotency-Key made an API key before, which is shown once', {
    hint: `if it was lost, revoke key ${id} and make another with a new Idempotency-Key`,
    details: { key_id: id },
  })
}
