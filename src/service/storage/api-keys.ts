/**
 * API keys: stored hashed, compared in constant time, never logged.
 *
 * A key has 256 random bits, so a plain SHA-256 is enough: there is nothing to guess.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IdSource } from '#base/util/ids.js'
import { type Database, databaseNowMs } from './database.js'

/**
 * Every key starts so; 43 characters of base62 follow, 46 in all. No `-` and nothing else that a word may not have: the wandb
 * client takes what follows the last `-` for the key and demands 40 characters of it. Older keys, in base64url, stay valid.
 */
const KEY_PREFIX = 'ty_'
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const KEY_DIGITS = 43

export interface ApiKeyRecord {
  readonly id: string
  readonly entity: string
  readonly keyPrefix: string
}

/** A key of 256 random bits that is stored nowhere yet. */
export function newApiKey(ids: IdSource): string {
  let rest = BigInt(`0x${Buffer.from(ids.secret(32), 'base64url').toString('hex')}`)
  let digits = ''
  for (let i = 0; i < KEY_DIGITS; i += 1) {
    digits = BASE62.charAt(Number(rest % 62n)) + digits
    rest /= 62n
  }
  return KEY_PREFIX + digits
}

/** Makes and stores a key. @returns the key itself, which cannot be read again */
export async function createApiKey(db: Database, ids: IdSource, entity: string): Promise<string> {
  const key = newApiKey(ids)
  await insertApiKey(db, ids, entity, key)
  return key
}

/** Stores a given key. */
export async function insertApiKey(db: Database, ids: IdSource, entity: string, key: string): Promise<void> {
  await db
    .insertInto('api_keys')
    .values({
      id: ids.uuid(),
      entity,
      key_hash: hashSecret(key),
      key_prefix: key.slice(0, 7),
      created_at_ms: databaseNowMs,
    })
    .execute()
}

export async function hasApiKeys(db: Database): Promise<boolean> {
  return (await db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined
}

/** The record of a key, or null. Looks up by hash, then compares all bytes in constant time. */
export async function findApiKey(db: Database, key: string): Promise<ApiKeyRecord | null> {
  const hash = hashSecret(key)
  const row = await db.selectFrom('api_keys').selectAll().where('key_hash', '=', hash).executeTakeFirst()
  if (row === undefined || !areEqualHashes(row.key_hash, hash)) return null
  return { id: row.id, entity: row.entity, keyPrefix: row.key_prefix }
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
