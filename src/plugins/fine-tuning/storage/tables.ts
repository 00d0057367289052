/**
 * The table of fine-tuning jobs, as Kysely sees it.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

/** What both have. */
export interface RequestColumns {
  entity: string
  project: string
  /** SHA-256 of the request, and of its idempotency key if it has one. */
  request_digest: string
  /** JSON object: the request as it was checked. */
  request: string
  /** `entity/project/name` of the model that is trained. */
  trained_name: string
  /** JSON object: the hyperparameters that were chosen. */
  hyperparameters: string
  /** File with a line for each step; null until it is made. It may have been deleted since. */
  result_file_id: string | null
  created_at_ms: number
}

export interface FineTuningJobsTable extends RequestColumns {
  job_id: string
  /** Counted once, after the job has ended. */
  trained_tokens: number | null
}

export interface FineTuningLoopsTable extends RequestColumns {
  loop_id: string
  /** JSON object: what was worth saying of the request. */
  notes: string
}

/** No interface: Kysely wants an index. */
export type FineTuningTables = {
  fine_tuning_loops: FineTuningLoopsTable
  fine_tuning_jobs: FineTuningJobsTable
}

/** The same database, or open transaction, with this table. */
export function fineTuningTables(db: Database): Kysely<Schema & FineTuningTables> {
  return (db as Kysely<Schema>).withTables<FineTuningTables>()
}
