/**
 * What the database holds of loops.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { up } from '../migrations/0048-loops.js'
import { up as addSteps } from '../migrations/0057-loop-steps.js'
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
  migrations: { '0048-loops': { up }, '0057-loop-steps': { up: addSteps } },
  postgresMigrations: {},
  namedSteps: listLoopSteps,
  moveWaits,
}
