/**
 * What the database holds of loops.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { moveWaits } from './claims.js'
import { listLoopSteps } from './loops.js'
import type { LoopTables } from './tables.js'

const tables: Readonly<Record<keyof LoopTables, TableFacts>> = {
  loops: { isListedById: true },
  loop_events: { isListedById: true },
  loop_steps: {},
  loop_grades: {},
}

export const loopSchema: SchemaPart = {
  tables,
  // loaded when they run: a database is made once, and opened at every start
  migrations: {
    '0048-loops': { up: async (db) => (await import('../migrations/0048-loops.js')).up(db) },
    '0057-loop-steps': { up: async (db) => (await import('../migrations/0057-loop-steps.js')).up(db) },
  },
  postgresMigrations: {},
  namedSteps: listLoopSteps,
  moveWaits,
}
