/**
 * Tables of the gateway, as Kysely sees them.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface GatewayRoutesTable {
  id: string
  entity: string
  project: string | null
  /** One of its entity. */
  name: string
  /** The name again, where programs of this machine use the route without a key of ours; one of all. */
  local_name: string | null
  /** JSON object (`RouteSpec`). */
  spec: string
  /** Passed on, recorded or not. */
  calls: number
  /** Of them those that were to be recorded and were not. */
  lost_calls: number
  created_at_ms: number
}

/** Written once, whole. */
export interface GatewayCallsTable {
  id: string
  route_id: string
  form: string
  model: string | null
  status: number
  outcome: string
  is_stream: number
  first_byte_ms: number | null
  duration_ms: number
  input_tokens: number | null
  cached_tokens: number | null
  output_tokens: number | null
  content: string
  /** Of the system prompt and the tools. */
  shape_digest: string | null
  /** Of all that was asked. */
  prompt_digest: string | null
  answer_digest: string | null
  /** JSON, masked, in the form it was asked in; null: not kept. */
  request: string | null
  answer: string | null
  size_bytes: number
  started_at_ms: number
}

/** No interface: Kysely wants an index. */
export type GatewayTables = { gateway_routes: GatewayRoutesTable; gateway_calls: GatewayCallsTable }

/** The same database, or open transaction, with these tables. */
export function gatewayTables(db: Database): Kysely<Schema & GatewayTables> {
  return (db as Kysely<Schema>).withTables<GatewayTables>()
}
