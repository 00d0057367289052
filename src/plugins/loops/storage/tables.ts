/**
 * Tables of loops, as Kysely sees them.
 */
import type { Generated, Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

/** It outlives its model: what was done stays to be read. */
export interface LoopsTable {
  id: string
  entity: string
  project: string
  key_id: string | null
  model_id: string
  /** JSON object. */
  spec: string
  status: string
  phase: string | null
  /** Steps that have ended. */
  step: Generated<number>
  /** Of the model, when the step that runs began; null: none has begun. */
  base_step: number | null
  /** Of the step that runs. */
  job_id: string | null
  /** JSON object: what an attempt must know of those before it (`LoopProgress`). */
  progress: string
  /** JSON object. */
  spent: string
  is_pause_asked: Generated<number>
  /** Counts processes; the fence of their reports. */
  attempt: Generated<number>
  /** Processes that were lost since the last step ended. */
  losses: Generated<number>
  /** Until when a process has it; null: none has. */
  lease_until_ms: number | null
  not_before_ms: number | null
  /** What its process signs in with. */
  session_id: string | null
  error_code: string | null
  error_message: string | null
  created_at_ms: Generated<number>
  started_at_ms: number | null
  ended_at_ms: number | null
}

/** What a step came to; step 0 is what was evaluated before the first. */
export interface LoopStepsTable {
  loop_id: string
  step: number
  /** Of the model. */
  checkpoint_step: number
  job_id: string | null
  train_reward: number | null
  /** Null: nothing was evaluated. */
  valid_reward: number | null
  /** JSON object of numbers. */
  numbers: string
  /** JSON object; of the newest evaluation alone. */
  examples: string | null
}

export interface LoopEventsTable {
  id: string
  loop_id: string
  type: string
  level: string
  message: string
  /** JSON object. */
  data: string
  created_at_ms: Generated<number>
}

/** What graders that cost something said, so that each is asked once an answer. */
interface LoopGradesTable {
  /** Of owner, grader, row and answer. */
  digest: string
  /** JSON object. */
  graded: string
  created_at_ms: Generated<number>
}

/** No interface: Kysely wants an index. */
export type LoopTables = {
  loops: LoopsTable
  loop_events: LoopEventsTable
  loop_steps: LoopStepsTable
  loop_grades: LoopGradesTable
}

/** The same database, or open transaction, with these tables. */
export function loopTables(db: Database): Kysely<Schema & LoopTables> {
  return (db as Kysely<Schema>).withTables<LoopTables>()
}
