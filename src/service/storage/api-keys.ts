/**
 * API keys: stored hashed, compared in constant time, never logged.
 *
 * A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { CompiledQuery, Selectable } from 'kysely'
import { canonicalId, type IdSource } from '#base/util/ids.js'
import { KEY_SCOPES, type KeyScope } from '#contract/wire/access/key-words.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { readOneOf } from './row-values.js'
import type { ApiKeysTable } from './schema.js'

/**
 * Every key starts so; 43 characters of base62 follow, 46 in all. No `-` and nothing else that a word may not have: the wandb
 * client takes what follows the last `-` for the key and demands 40 characters of it. Older keys, in base64url, stay valid.
 */
const KEY_PREFIX = 'ty_'
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const KEY_DIGITS = 43

/** What a key may do. */
export interface KeyRights {
  readonly entity: string
  /** The one project it may see; null: all of its entity. */
  readonly project: string | null
  readonly scope: KeyScope
}

export interface ApiKeyRecord extends KeyRights {
  readonly id: string
  readonly name: string
  readonly keyPrefix: string
  readonly createdAtMs: number
  readonly expiresAtMs: number | null
  readonly lastUsedAtMs: number | null
}

/** A key to be stored; what is not given is as wide as it can be. */
export interface NewApiKey extends Partial<Omit<KeyRights, 'entity'>> {
  readonly id: string
  readonly entity: string
  readonly name?: string
  /** From now on, by the database's clock; null: for ever. */
  readonly expiresInMs?: number | null
}

/** A key of 256 random bits that is stored nowhere yet. */
export function newApiKey(ids: IdSource): string {
  return newSecret(ids, KEY_PREFIX)
}

/** 256 random bits in base62 behind a prefix that tells what they are. */
export function newSecret(ids: IdSource, prefix: string): string {
  let rest = BigInt(`0x${Buffer.from(ids.secret(32), 'base64url').toString('hex')}`)
  let digits = ''
  for (let i = 0; i < KEY_DIGITS; i += 1) {
    digits = BASE62.charAt(Number(rest % 62n)) + digits
    rest /= 62n
  }
  return prefix + digits
}

/** Makes and stores a key without limits. @returns the key itself, which cannot be read again */
export async function createApiKey(db: Database, ids: IdSource, entity: string): Promise<string> {
  const key = newApiKey(ids)
  await insertApiKey(db, { id: ids.uuid(), entity }, key)
  return key
}

/** Stores a given key. */
export async function insertApiKey(db: Database, rights: NewApiKey, key: string): Promise<void> {
  const expiresInMs = rights.expiresInMs ?? null
  await db
    .insertInto('api_keys')
    .values((e) => ({
      id: rights.id,
      entity: rights.entity,
      project: rights.project ?? null,
      scope: rights.scope ?? 'admin',
      name: rights.name ?? '',
      key_hash: hashSecret(key),
      key_prefix: key.slice(0, 7),
      expires_at_ms: expiresInMs === null ? null : e(databaseNowMs, '+', expiresInMs),
      created_at_ms: databaseNowMs,
    }))
    .execute()
}

export async function hasApiKeys(db: Database): Promise<boolean> {
  return (await db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined
}

/** The record of a key that is valid now, or null. Looks up by hash, then compares all bytes in constant time. */
export async function findApiKey(db: Database, key: string): Promise<ApiKeyRecord | null> {
  const hash = hashSecret(key)
  const query = { ...validKeyQuery(db), parameters: [hash] }
  const { rows } = await db.executeQuery<Selectable<ApiKeysTable>>(query)
  const [row] = rows
  if (row === undefined || !areEqualHashes(row.key_hash, hash)) return null
  return toApiKey(row)
}

/** Whether a key is still there, and valid now. */
export async function isKeyValid(db: Database, id: string): Promise<boolean> {
  const query = db.selectFrom('api_keys').select('id').where('id', '=', id)
  const isNotOver = query.where((e) => e.or([e('expires_at_ms', 'is', null), e('expires_at_ms', '>', databaseNowMs)]))
  return (await isNotOver.executeTakeFirst()) !== undefined
}

/** Every request asks it, and building it takes longer than running it. By database: two of one process may speak differently. */
const compiledKeyQueries = new WeakMap<object, CompiledQuery<Selectable<ApiKeysTable>>>()

/** Its only parameter is the hash. */
function validKeyQuery(db: Database): CompiledQuery<Selectable<ApiKeysTable>> {
  const { adapter } = db.getExecutor()
  const known = compiledKeyQueries.get(adapter)
  if (known !== undefined) return known
  const query = db
    .selectFrom('api_keys')
    .selectAll()
    .where('key_hash', '=', '')
    .where((e) => e.or([e('expires_at_ms', 'is', null), e('expires_at_ms', '>', databaseNowMs)]))
    .compile()
  compiledKeyQueries.set(adapter, query)
  return query
}

/** Which keys may be seen: those of an entity, or of one project of it. */
export interface KeyOwner {
  readonly entity: string
  readonly project: string | null
}

export async function findApiKeyById(db: Database, owner: KeyOwner, id: string): Promise<ApiKeyRecord | null> {
  const row = await ownedKeys(db, owner).where('id', '=', canonicalId(id)).executeTakeFirst()
  return row === undefined ? null : toApiKey(row)
}

/** Keys of an owner, oldest first, expired ones too. */
export async function listApiKeys(db: Database, owner: KeyOwner, page: PageOptions): Promise<Page<ApiKeyRecord>> {
  let query = ownedKeys(db, owner)
  if (page.after !== undefined) {
    if ((await findApiKeyById(db, owner, page.after)) === null) throw unknownCursor(page.after)
    query = query.where('id', '>', page.after)
  }
  const rows = await query
    .orderBy('id')
    .limit(page.limit + 1)
    .execute()
  return toPage(rows, page.limit, toApiKey)
}

function ownedKeys(db: Database, { entity, project }: KeyOwner) {
  const query = db.selectFrom('api_keys').selectAll().where('entity', '=', entity)
  return project === null ? query : query.where('project', '=', project)
}

/** Revokes a key: it is refused from now on. @returns false if there was none */
export async function deleteApiKey(db: Database, owner: KeyOwner, id: string): Promise<boolean> {
  if ((await findApiKeyById(db, owner, id)) === null) return false
  await db.deleteFrom('api_keys').where('id', '=', canonicalId(id)).execute()
  return true
}

/** Notes that keys were used now. */
export async function touchApiKeys(db: Database, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await db
    .updateTable('api_keys')
    .set({ last_used_at_ms: databaseNowMs })
    .where('id', 'in', [...ids])
    .execute()
}

function toApiKey(row: Selectable<ApiKeysTable>): ApiKeyRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    scope: readOneOf(KEY_SCOPES, row.scope, 'scope of an API key'),
    name: row.name,
    keyPrefix: row.key_prefix,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    lastUsedAtMs: row.last_used_at_ms,
  }
}

/** SHA-256 of a secret, hex. */
export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret, 'utf8').digest('hex')
}

/** Compares two hex digests in constant time. */
export function areEqualHashes(a: string, b: string): boolean {
  const left = Buffer.from(a, 'hex')
  const right = Buffer.from(b, 'hex')
  return left.length === right.length && left.length > 0 && timingSafeEqual(left, right)
}
