/**
 * Tables of watched prompts, as Kysely sees them.
 */
import type { Generated, Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

export interface ProbesTable {
  id: string
  model_id: string
  /** Who asked for it: its answers are counted for this key. */
  key_id: string
  /** JSON list of `{role, content}`. */
  messages: string
  max_tokens: number
  created_at_ms: Generated<number>
}

/** What a step says to a watched prompt. It outlives the step's checkpoint. */
export interface ProbeAnswersTable {
  probe_id: string
  /** 0: the base model. */
  step: number
  /** `queued`, `answered`, `failed`. */
  status: string
  /** 1: somebody named the step; 0: it is there because the step is new, and gives way to newer ones. */
  is_asked: number
  text: string | null
  finish_reason: string | null
  completion_tokens: number | null
  checkpoint: string | null
  error: string | null
  /** Its place in the queue. */
  created_at_ms: Generated<number>
  answered_at_ms: number | null
}

/** No interface: Kysely wants an index. */
export type ProbeTables = {
  probes: ProbesTable
  probe_answers: ProbeAnswersTable
}

/** The same database, or open transaction, with these tables. */
export function probeTables(db: Database): Kysely<Schema & ProbeTables> {
  return (db as Kysely<Schema>).withTables<ProbeTables>()
}
