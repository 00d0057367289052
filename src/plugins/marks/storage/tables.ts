/**
 * The table of marks, as Kysely sees it.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

/** What a reader thinks of an answer, with a copy of what was said: it outlives the trajectory. */
export interface MarksTable {
  id: string
  model_id: string
  /** One of `MARK_SOURCES`. */
  source: string
  /** The job or log; null for an answer of a chat. */
  source_id: string | null
  group_index: number | null
  trajectory_index: number | null
  pair_with: number | null
  /** Of the model that answered. */
  step: number | null
  /** One of `MARKS`. */
  mark: string
  edited: string | null
  note: string | null
  /** JSON object: prompt, answer, the answer it is compared with, tools. */
  content: string
  created_at_ms: number
  updated_at_ms: number
}

/** No interface: Kysely wants an index. */
export type MarkTables = { marks: MarksTable }

/** The same database, or open transaction, with this table. */
export function markTables(db: Database): Kysely<Schema & MarkTables> {
  return (db as Kysely<Schema>).withTables<MarkTables>()
}
