/**
 * What the database holds of marks.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { listMarkedSteps } from './marks.js'
import type { MarkTables } from './tables.js'

const tables: Readonly<Record<keyof MarkTables, TableFacts>> = { marks: {} }

export const markSchema: SchemaPart = {
  tables,
  migrations: { '0037-marks': { up: async (db) => (await import('../migrations/0037-marks.js')).up(db) } },
  postgresMigrations: {},
  namedSteps: listMarkedSteps,
}
