/**
 * Tables of recorded rollouts, as Kysely sees them.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface RecordedRolloutsTable {
  id: string
  entity: string
  /** Of the key that made it, when that key is bound to one. */
  project: string | null
  key_id: string
  /** The project that its answers are counted for; null: as without a rollout. */
  usage_project: string | null
  /** SHA-256 of the token in its address; null once it has ended, and for one of a session. */
  token_hash: string | null
  /** One of `ROLLOUT_KINDS`. */
  kind: string
  /** The address that a session came by. */
  parent_id: string | null
  session: string | null
  model: string
  run: string
  task: string
  task_group: string
  /** JSON object: `RolloutSampling`. */
  sampling: string
  max_turns: number
  max_tokens: number
  /** One of `ROLLOUT_STATUSES`; an open one whose time is over is expired. */
  status: string
  /** Requests that were let in. */
  turns: number
  sampled_tokens: number
  /** Of prompts and answers together. */
  recorded_tokens: number
  undelivered_calls: number
  overridden_calls: number
  /** JSON object: `RolloutResult`. */
  result: string | null
  /** JSON: the trajectory. */
  body_sha256: string | null
  body_bytes: number
  created_at_ms: number
  expires_at_ms: number
  ended_at_ms: number | null
}

/** Prompts and answers, until they are joined. */
interface RecordedCallsTable {
  /** Of when it began. */
  id: string
  rollout_id: string
  /** JSON: `RecordedCall`. */
  body_sha256: string
}

/** No interface: Kysely wants an index. */
export type RecordingTables = {
  recorded_rollouts: RecordedRolloutsTable
  recorded_calls: RecordedCallsTable
}

/** The same database, or open transaction, with these tables. */
export function recordingTables(db: Database): Kysely<Schema & RecordingTables> {
  return (db as Kysely<Schema>).withTables<RecordingTables>()
}
