/**
 * Tables of stored responses, as Kysely sees them.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

/** A response that may be gone on from, with the conversation up to it. */
export interface StoredResponsesTable {
  id: string
  entity: string
  /** Of the key that asked; empty: a key of all of the entity. */
  project: string
  /** As clients know it. They may choose it, so it is unique among what is theirs alone. */
  response_id: string
  /** Of `response` and `items`, UTF-8. */
  size_bytes: number
  created_at_ms: number
  /** JSON: the response as it was answered, without the tokens of its training. */
  response: string
  /** JSON array: the items it answers, from the beginning of the conversation. */
  items: string
}

/** What a response consists of, so that requests can refer to it. */
export interface StoredResponseItemsTable {
  item_id: string
  stored_id: string
}

/** No interface: Kysely wants an index. */
export type ResponseTables = {
  stored_responses: StoredResponsesTable
  stored_response_items: StoredResponseItemsTable
}

/** The same database, or open transaction, with these tables. */
export function responseTables(db: Database): Kysely<Schema & ResponseTables> {
  return (db as Kysely<Schema>).withTables<ResponseTables>()
}
