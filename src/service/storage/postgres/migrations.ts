/**
 * What a PostgreSQL database goes through: all tables at once, then the migrations that came later, which are SQLite's own. One of those
 * that needs words of SQLite alone (a trigger, `json_each`) gets a second spelling here, under its name.
 */
import { type Migration, sql } from 'kysely'
import { createTable as createKeptTrainingData } from '../migrations/0036-kept-training-data.js'
import { MIGRATIONS } from '../migrations/index.js'
import { CLOCK, toPostgresTypes } from './dialect.js'
import { TABLES } from './tables.js'
import { blobTriggers, triggers } from './triggers.js'

/** The last of SQLite's migrations that `tables.ts` has in it; the name sorts before those that follow. */
export const SQUASHED = '0028-job-workers'

const OWN_SPELLINGS: Readonly<Record<string, Migration>> = {
  '0036-kept-training-data': {
    up: async (db) => {
      await createKeptTrainingData(db)
      for (const column of ['data_sha256', 'rollouts_sha256']) {
        for (const statement of blobTriggers('kept_training_data', column, 1)) await sql.raw(statement).execute(db)
      }
    },
  },
}

const createTables: Migration = {
  up: async (db) => {
    for (const statement of TABLES) await sql.raw(toPostgresTypes(statement)).execute(db)
    for (const statement of triggers(CLOCK)) await sql.raw(statement).execute(db)
  },
}

/** Name → migration, applied in the order of the names. */
export const POSTGRES_MIGRATIONS: Readonly<Record<string, Migration>> = {
  [SQUASHED]: createTables,
  ...Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name > SQUASHED)),
  ...OWN_SPELLINGS,
}
