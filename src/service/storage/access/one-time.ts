/**
 * Rows of secrets that can be used once and only for a short time: codes that sign a browser in, and tickets of
 * downloads. They work at any server that shares the database, and after a restart. Secrets are stored hashed, as keys
 * are, and end with the key that made them.
 */
import type { IdSource } from '#base/util/ids.js'
import { KEY_SCOPES, type KeyScope } from '#contract/wire/access/key-words.js'
import { hashSecret, newSecret } from '../api-keys.js'
import { type DatabaseHandle, databaseNowMs } from '../database.js'
import { inTransaction } from '../in-transaction.js'
import { readOneOf } from '../row-values.js'

/** What the secret is for: one of another kind opens nothing. */
export type OneTimeKind = 'sign-in' | 'download'

export interface OneTimeRight {
  readonly keyId: string
  readonly scope: KeyScope
  /** Of who asked for it; null: the key itself. */
  readonly sessionId: string | null
  readonly usageProject: string | null
  /** What it opens; null: no address. */
  readonly address: string | null
}

/** With what is known of its key. */
export interface TakenRight extends OneTimeRight {
  readonly entity: string
  readonly project: string | null
  readonly keyPrefix: string
}

/** Most of a kind that wait at once for a key; one more ends the one that would end first. Keys do not end those of others. */
const MOST = 100

/** @returns its secret of 256 bits in letters and digits, which stay whole at the end of an address, and when it ends, milliseconds since 1970 */
export async function insertOneTime(
  { db, ids }: { readonly db: DatabaseHandle; readonly ids: IdSource },
  kind: OneTimeKind,
  { right, lifeMs }: { readonly right: OneTimeRight; readonly lifeMs: number },
): Promise<{ readonly secret: string; readonly expiresAtMs: number }> {
  const secret = newSecret(ids, '')
  const expiresAtMs = await inTransaction(db, async (transaction) => {
    await transaction.deleteFrom('one_time_secrets').where('expires_at_ms', '<=', databaseNowMs).execute()
    const kept = transaction
      .selectFrom('one_time_secrets')
      .select('secret_hash')
      .where('key_id', '=', right.keyId)
      .where('kind', '=', kind)
      .orderBy('expires_at_ms', 'desc')
      .limit(MOST - 1)
    await transaction
      .deleteFrom('one_time_secrets')
      .where('key_id', '=', right.keyId)
      .where('kind', '=', kind)
      .where('secret_hash', 'not in', kept)
      .execute()
    const row = await transaction
      .insertInto('one_time_secrets')
      .values((e) => ({
        secret_hash: hashSecret(secret),
        kind,
        key_id: right.keyId,
        scope: right.scope,
        session_id: right.sessionId,
        usage_project: right.usageProject,
        address: right.address,
        expires_at_ms: e(databaseNowMs, '+', lifeMs),
      }))
      .returning('expires_at_ms')
      .executeTakeFirstOrThrow()
    return row.expires_at_ms
  })
  return { secret, expiresAtMs }
}

/** What the secret gives, which is gone then: of two that ask at once one has it. Null for one that gives nothing, or nothing any more. */
export async function takeOneTime(db: DatabaseHandle, kind: OneTimeKind, secret: string): Promise<TakenRight | null> {
  return inTransaction(db, async (transaction) => {
    const row = await transaction
      .deleteFrom('one_time_secrets')
      .where('secret_hash', '=', hashSecret(secret))
      .where('kind', '=', kind)
      .where('expires_at_ms', '>', databaseNowMs)
      .returning(['key_id', 'scope', 'session_id', 'usage_project', 'address'])
      .executeTakeFirst()
    if (row === undefined) return null
    const key = await transaction
      .selectFrom('api_keys')
      .select(['entity', 'project', 'key_prefix'])
      .where('id', '=', row.key_id)
      .where((e) => e.or([e('expires_at_ms', 'is', null), e('expires_at_ms', '>', databaseNowMs)]))
      .executeTakeFirst()
    if (key === undefined) return null
    return {
      keyId: row.key_id,
      scope: readOneOf(KEY_SCOPES, row.scope, 'scope of a right that is had once'),
      sessionId: row.session_id,
      usageProject: row.usage_project,
      address: row.address,
      entity: key.entity,
      project: key.project,
      keyPrefix: key.key_prefix,
    }
  })
}
