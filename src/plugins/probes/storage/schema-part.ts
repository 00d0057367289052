/**
 * What the database holds of watched prompts: every new step of a model answers them.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { listAskedSteps, queueNewStep } from './queued-answers.js'
import type { ProbeTables } from './tables.js'

const tables: Readonly<Record<keyof ProbeTables, TableFacts>> = { probes: {}, probe_answers: {} }

export const probeSchema: SchemaPart = {
  tables,
  migrations: { '0038-probes': { up: async (db) => (await import('../migrations/0038-probes.js')).up(db) } },
  postgresMigrations: {},
  namedSteps: listAskedSteps,
  noteStep: queueNewStep,
}
