/**
 * The table of the audit log, as Kysely sees it. Rows are added and, when they are old enough, deleted; none is ever changed.
 */
import type { Generated, Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface AuditEventsTable {
  id: string
  entity: string
  project: string | null
  key_id: string
  session_id: string | null
  action: string
  /** JSON object. */
  target: string
  made_id: string | null
  error: string | null
  request_id: string
  client: string | null
  created_at_ms: Generated<number>
}

/** No interface: Kysely wants an index. */
export type AuditTables = { audit_events: AuditEventsTable }

/** The same database, or open transaction, with these tables. */
export function auditTables(db: Database): Kysely<Schema & AuditTables> {
  return (db as Kysely<Schema>).withTables<AuditTables>()
}
