/**
 * Tables of stored responses, as Kysely sees them.
 */

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

export interface ResponseTables {
  stored_responses: StoredResponsesTable
  stored_response_items: StoredResponseItemsTable
}
