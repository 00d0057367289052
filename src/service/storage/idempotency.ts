/**
 * `Idempotency-Key`: which object a key made, so that a repeated create answers with it.
 */
import { ConflictError } from '#base/errors/errors.js'
import { type Database, databaseNowMs } from './database.js'

export interface IdempotencyScope {
  readonly entity: string
  /** Of the API key: its projects know nothing of each other. Null: a key of all of the entity. */
  readonly project: string | null
  /** What is made, as `models`; a plugin's is its own. */
  readonly scope: string
  readonly key: string
}

/**
 * The id the key made before, or null.
 *
 * @throws {ConflictError} `idempotency_key_reused` if it was used for another request
 */
export async function findIdempotent(
  db: Database,
  scope: IdempotencyScope,
  requestDigest: string,
): Promise<string | null> {
  const row = await db
    .selectFrom('idempotency_keys')
    .select(['request_digest', 'object_id'])
    .where('entity', '=', scope.entity)
    .where('scope', '=', scope.scope)
    .where('key', '=', storedKey(scope))
    .executeTakeFirst()
  if (row === undefined) return null
  if (row.request_digest !== requestDigest) {
    throw new ConflictError('idempotency_key_reused', 'Idempotency-Key was used before for a different request', {
      hint: 'send a new key for a new request',
    })
  }
  return row.object_id
}

/** Remembers what a key made, in place of an object that is gone; call in the transaction that makes it. */
export async function rememberIdempotent(
  db: Database,
  scope: IdempotencyScope,
  requestDigest: string,
  objectId: string,
): Promise<void> {
  await db
    .insertInto('idempotency_keys')
    .values({
      entity: scope.entity,
      scope: scope.scope,
      key: storedKey(scope),
      request_digest: requestDigest,
      object_id: objectId,
      created_at_ms: databaseNowMs,
    })
    .onConflict((conflict) =>
      conflict.columns(['entity', 'scope', 'key']).doUpdateSet({
        request_digest: requestDigest,
        object_id: objectId,
        created_at_ms: databaseNowMs,
      }),
    )
    .execute()
}

/** No header holds a line break, so a project's keys are no others. */
function storedKey({ project, key }: IdempotencyScope): string {
  return project === null ? key : `${project}\n${key}`
}

/** Forgets the keys that made an object, when it is deleted. */
export async function forgetIdempotent(db: Database, objectId: string): Promise<void> {
  await db.deleteFrom('idempotency_keys').where('object_id', '=', objectId).execute()
}
