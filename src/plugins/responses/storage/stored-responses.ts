/**
 * Rows of stored responses. Knows nothing of what is in one: JSON comes and goes as text.
 */
import { sql } from 'kysely'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { responseTables } from './tables.js'

/** Whose a response is: of one project, or of a key of all of the entity. */
export interface ResponseOwner {
  readonly entity: string
  readonly project: string | null
}

export interface StoredResponseRecord {
  readonly owner: ResponseOwner
  /** As clients know it. */
  readonly responseId: string
  /** JSON. */
  readonly response: string
  /** JSON. */
  readonly items: string
  /** Of what it consists of. */
  readonly itemIds: readonly string[]
}

/** How many of an entity are kept, the newest ones, and how large they may be together. */
export interface ResponseLimits {
  readonly count: number
  readonly sizeBytes: number
}

/** UTF-8 of both texts. */
export function sizeOf({ response, items }: Pick<StoredResponseRecord, 'response' | 'items'>): number {
  return Buffer.byteLength(response) + Buffer.byteLength(items)
}

/** Stores one, in place of one of the same owner and id; call in a transaction. @param id of the row */
export async function putResponse(db: Database, id: string, record: StoredResponseRecord): Promise<void> {
  const { owner, responseId, response, items, itemIds } = record
  const own = { entity: owner.entity, project: owner.project ?? '', response_id: responseId }
  const insert = () =>
    responseTables(db)
      .insertInto('stored_responses')
      .values({ id, ...own, size_bytes: sizeOf(record), created_at_ms: databaseNowMs, response, items })
      .onConflict((conflict) => conflict.columns(['entity', 'response_id', 'project']).doNothing())
      .executeTakeFirst()
  if ((await insert()).numInsertedOrUpdatedRows === 0n) {
    const { entity, project, response_id } = own
    const earlier = responseTables(db)
      .deleteFrom('stored_responses')
      .where('entity', '=', entity)
      .where('project', '=', project)
    await earlier.where('response_id', '=', response_id).execute()
    await insert()
  }
  if (itemIds.length === 0) return
  await responseTables(db)
    .insertInto('stored_response_items')
    .values(itemIds.map((item_id) => ({ item_id, stored_id: id })))
    .execute()
}

/**
 * What an owner sees under an id; a key of all of the entity sees every project's.
 *
 * @param reference the id of the response, or of an item in it
 * @param options the age from which on it is not found; what is read of it, for both texts may be large
 */
export async function findResponse<Column extends 'response' | 'items'>(
  db: Database,
  owner: ResponseOwner,
  reference: { readonly responseId: string } | { readonly itemId: string },
  { mostMs, columns }: { readonly mostMs: number; readonly columns: readonly Column[] },
): Promise<Pick<StoredResponseRecord, Column> | null> {
  // the sign keeps databases from walking all of an entity by age: few rows have the id
  const age = sql<number>`+${sql.ref('stored.created_at_ms')}`
  let query = responseTables(db)
    .selectFrom('stored_responses as stored')
    .select(columns.map((column) => `stored.${column}` as 'stored.response' | 'stored.items'))
    .where('stored.entity', '=', owner.entity)
    .where(age, '>', sql<number>`${databaseNowMs} - ${sql.lit(mostMs)}`)
  if (owner.project !== null) query = query.where('stored.project', '=', owner.project)
  if ('responseId' in reference) query = query.where('stored.response_id', '=', reference.responseId)
  else {
    // the only one that has it
    const itsResponse = responseTables(db).selectFrom('stored_response_items').select('stored_id')
    query = query.where('stored.id', '=', itsResponse.where('item_id', '=', reference.itemId))
  }
  // two projects may have chosen the same id
  const row = await query.orderBy(age, 'desc').orderBy('stored.id', 'desc').limit(1).executeTakeFirst()
  return (row as Pick<StoredResponseRecord, Column> | undefined) ?? null
}

/** Deletes what `findResponse` would find under the id. @returns whether there was one */
export async function deleteResponse(db: Database, owner: ResponseOwner, responseId: string): Promise<boolean> {
  let query = responseTables(db)
    .deleteFrom('stored_responses')
    .where('entity', '=', owner.entity)
    .where('response_id', '=', responseId)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  return (await query.executeTakeFirstOrThrow()).numDeletedRows > 0n
}

/** Deletes the oldest ones of an entity that are more than the limits. */
export async function trimResponses(db: Database, entity: string, limits: ResponseLimits): Promise<void> {
  const newestFirst = sql.raw('over (order by created_at_ms desc, id desc)')
  const ranked = responseTables(db)
    .selectFrom('stored_responses')
    .select(['id', sql<number>`row_number() ${newestFirst}`.as('place')])
    .select(sql<number>`sum(size_bytes) ${newestFirst}`.as('bytes'))
    .where('entity', '=', entity)
    .as('ranked')
  await responseTables(db)
    .deleteFrom('stored_responses')
    .where('id', 'in', (e) =>
      e
        .selectFrom(ranked)
        .select('ranked.id')
        .where((or) => or.or([or('ranked.place', '>', limits.count), or('ranked.bytes', '>', limits.sizeBytes)])),
    )
    .execute()
}

/** Deletes those of all that are older. */
export async function deleteOldResponses(db: Database, mostMs: number): Promise<void> {
  await responseTables(db)
    .deleteFrom('stored_responses')
    .where('created_at_ms', '<=', sql<number>`${databaseNowMs} - ${sql.lit(mostMs)}`)
    .execute()
}
