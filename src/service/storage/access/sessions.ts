/**
 * Rows of browsers' sessions. The token is stored hashed, as keys are; whether the key still counts is asked with every look.
 */
import type { IdSource } from '#base/util/ids.js'
import { KEY_SCOPES, type KeyScope } from '#contract/wire/access/key-words.js'
import { areEqualHashes, hashSecret, type KeyOwner, newSecret } from '../api-keys.js'
import { type Database, databaseNowMs } from '../database.js'
import { type Page, type PageOptions, unknownCursor } from '../paging.js'
import { readOneOf } from '../row-values.js'

/** Every token of a session starts so, which tells it from a key. */
const TOKEN_PREFIX = 'tys_'
/** Sessions of one key that are kept; a new one ends the oldest. */
const MOST_OF_KEY = 200

export interface SessionRecord {
  readonly id: string
  readonly name: string
  readonly keyId: string
  readonly keyPrefix: string
  readonly entity: string
  /** The one project it may see; null: all of the entity. */
  readonly project: string | null
  /** Never more than the key's. */
  readonly scope: KeyScope
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

export interface NewSession {
  readonly id: string
  readonly keyId: string
  readonly scope: KeyScope
  readonly name: string
  /** From now on, by the database's clock. */
  readonly expiresInMs: number
}

export const isSessionToken = (text: string): boolean => text.startsWith(TOKEN_PREFIX)

/** A token of 256 random bits that is stored nowhere yet. */
export const newSessionToken = (ids: IdSource): string => newSecret(ids, TOKEN_PREFIX)

/** Stores a session, forgets those that are over and the oldest of too many; call inside a transaction. */
export async function insertSession(db: Database, session: NewSession, token: string): Promise<void> {
  await db.deleteFrom('sessions').where('expires_at_ms', '<=', databaseNowMs).execute()
  const kept = db
    .selectFrom('sessions')
    .select('id')
    .where('key_id', '=', session.keyId)
    .orderBy('id', 'desc')
    .limit(MOST_OF_KEY - 1)
  await db.deleteFrom('sessions').where('key_id', '=', session.keyId).where('id', 'not in', kept).execute()
  await db
    .insertInto('sessions')
    .values((e) => ({
      id: session.id,
      key_id: session.keyId,
      token_hash: hashSecret(token),
      scope: session.scope,
      name: session.name,
      expires_at_ms: e(databaseNowMs, '+', session.expiresInMs),
      created_at_ms: databaseNowMs,
    }))
    .execute()
}

/** The session of a token while it and its key are valid, or null. */
export async function findSession(db: Database, token: string): Promise<SessionRecord | null> {
  const hash = hashSecret(token)
  const row = await validSessions(db).select('sessions.token_hash').where('token_hash', '=', hash).executeTakeFirst()
  return row === undefined || !areEqualHashes(row.token_hash, hash) ? null : toSession(row)
}

/** Which sessions are looked for: those of an owner's keys, or of one key of them. */
export interface SessionFilter extends KeyOwner {
  readonly keyId: string | null
}

export async function findSessionById(db: Database, filter: SessionFilter, id: string): Promise<SessionRecord | null> {
  const row = await sessionsOf(db, filter).where('sessions.id', '=', id).executeTakeFirst()
  return row === undefined ? null : toSession(row)
}

/** Sessions that are valid, oldest first. */
export async function listSessions(
  db: Database,
  filter: SessionFilter,
  page: PageOptions,
): Promise<Page<SessionRecord>> {
  let query = sessionsOf(db, filter)
  if (page.after !== undefined) {
    if ((await findSessionById(db, filter, page.after)) === null) throw unknownCursor(page.after)
    query = query.where('sessions.id', '>', page.after)
  }
  const rows = await query
    .orderBy('sessions.id')
    .limit(page.limit + 1)
    .execute()
  return { items: rows.slice(0, page.limit).map(toSession), hasMore: rows.length > page.limit }
}

export async function deleteSession(db: Database, id: string): Promise<void> {
  await db.deleteFrom('sessions').where('id', '=', id).execute()
}

function validSessions(db: Database) {
  return db
    .selectFrom('sessions')
    .innerJoin('api_keys', 'api_keys.id', 'sessions.key_id')
    .select([
      'sessions.id',
      'sessions.name',
      'sessions.key_id',
      'sessions.scope',
      'sessions.created_at_ms',
      'sessions.expires_at_ms',
      'api_keys.entity',
      'api_keys.project',
      'api_keys.key_prefix',
      'api_keys.scope as key_scope',
      'api_keys.expires_at_ms as key_expires_at_ms',
    ])
    .where('sessions.expires_at_ms', '>', databaseNowMs)
    .where((e) => e.or([e('api_keys.expires_at_ms', 'is', null), e('api_keys.expires_at_ms', '>', databaseNowMs)]))
}

function sessionsOf(db: Database, { entity, project, keyId }: SessionFilter) {
  let query = validSessions(db).where('api_keys.entity', '=', entity)
  if (project !== null) query = query.where('api_keys.project', '=', project)
  if (keyId !== null) query = query.where('sessions.key_id', '=', keyId)
  return query
}

function toSession(row: {
  id: string
  name: string
  key_id: string
  scope: string
  created_at_ms: number
  expires_at_ms: number
  entity: string
  project: string | null
  key_prefix: string
  key_scope: string
  key_expires_at_ms: number | null
}): SessionRecord {
  const scope = readOneOf(KEY_SCOPES, row.scope, 'scope of a session')
  const keyScope = readOneOf(KEY_SCOPES, row.key_scope, 'scope of an API key')
  return {
    id: row.id,
    name: row.name,
    keyId: row.key_id,
    keyPrefix: row.key_prefix,
    entity: row.entity,
    project: row.project,
    scope: KEY_SCOPES.indexOf(scope) < KEY_SCOPES.indexOf(keyScope) ? scope : keyScope,
    createdAtMs: row.created_at_ms,
    expiresAtMs: Math.min(row.expires_at_ms, row.key_expires_at_ms ?? row.expires_at_ms),
  }
}
