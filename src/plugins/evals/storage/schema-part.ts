/**
 * What the database holds of evals.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'

export interface EvalsTable {
  id: string
  entity: string
  /** Of the key that made it, when that key is bound to one. */
  project: string | null
  name: string
  /** JSON object. */
  metadata: string | null
  /** JSON object: what rows are like, and criteria. */
  spec: string
  created_at_ms: number
}

export interface EvalRunsTable {
  id: string
  eval_id: string
  entity: string
  project: string | null
  key_id: string
  /** The project that its answers are counted for. */
  usage_project: string | null
  name: string
  metadata: string | null
  /** JSON object: how rows are answered; the rows are items. */
  source: string
  status: string
  /** Counts who has taken it up: what an earlier one still writes is refused. */
  attempt: number
  /** JSON object. */
  error: string | null
  created_at_ms: number
  ended_at_ms: number | null
}

export interface EvalItemsTable {
  id: string
  run_id: string
  position: number
  /** `pending` until it is graded. */
  status: string
  /** JSON object: the row, and its answer where it came with one. */
  item: string
  /** JSON object: the answer, and what each criterion said of it. */
  result: string | null
  created_at_ms: number
}

/** No interface: Kysely wants an index. */
type EvalTables = { evals: EvalsTable; eval_runs: EvalRunsTable; eval_items: EvalItemsTable }

/** The same database, or open transaction, with these tables. */
export function evalTables(db: Database): Kysely<Schema & EvalTables> {
  return (db as Kysely<Schema>).withTables<EvalTables>()
}

const tables: Readonly<Record<keyof EvalTables, TableFacts>> = {
  evals: { isListedById: true },
  eval_runs: { isListedById: true },
  eval_items: { isListedById: true },
}

export const evalSchema: SchemaPart = {
  tables,
  migrations: { '0058-evals': { up: async (db) => (await import('../migrations/0058-evals.js')).up(db) } },
  postgresMigrations: {},
}
