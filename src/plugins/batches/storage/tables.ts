/**
 * Tables of batches, as Kysely sees them.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface BatchesTable {
  id: string
  entity: string
  /** Of the key that made it, when that key is bound to one. */
  project: string | null
  key_id: string
  /** The project that its answers are counted for; null: as without a batch. */
  usage_project: string | null
  endpoint: string
  input_file_id: string
  /** Its requests, whatever becomes of the file; null when it has ended. */
  input_sha256: string | null
  /** JSON object. */
  metadata: string | null
  /** One of `BATCH_STATUSES`. */
  status: string
  /** Counts who has taken it up: what an earlier one still writes is refused. */
  attempt: number
  total: number
  completed: number
  failed: number
  /** JSON object. */
  usage: string | null
  /** JSON list: what is wrong with its lines. */
  errors: string | null
  output_file_id: string | null
  error_file_id: string | null
  created_at_ms: number
  expires_at_ms: number
  in_progress_at_ms: number | null
  finalizing_at_ms: number | null
  cancelling_at_ms: number | null
  ended_at_ms: number | null
}

/** Answers that were written together, until they are joined to files. */
interface BatchPiecesTable {
  batch_id: string
  id: string
  /** `1-16,18`. */
  lines: string
  output_sha256: string | null
  error_sha256: string | null
}

/** No interface: Kysely wants an index. */
export type BatchTables = {
  batches: BatchesTable
  batch_pieces: BatchPiecesTable
}

/** The same database, or open transaction, with these tables. */
export function batchTables(db: Database): Kysely<Schema & BatchTables> {
  return (db as Kysely<Schema>).withTables<BatchTables>()
}
