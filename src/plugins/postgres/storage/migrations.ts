/**
 * What a PostgreSQL database goes through: all tables at once, then the migrations that came later, which are SQLite's own. One
 * of those that needs words of SQLite alone (a trigger, `json_each`) gets a second spelling here, under its name.
 */
import { type Migration, sql } from 'kysely'
import { createTable as createKeptTrainingData } from '#service/storage/migrations/0036-kept-training-data.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import { type FirstTables, mergeMigrations, type SchemaPart } from '#service/storage/schema-part.js'
import { CLOCK } from './dialect.js'
import { STATEMENTS, toStatements } from './tables.js'
import { blobTriggers, triggers } from './triggers.js'

/** The last of SQLite's migrations that `tables.ts` has in it; the name sorts before those that follow. */
export const SQUASHED = '0028-job-workers'

const OWN_SPELLINGS: Readonly<Record<string, Migration>> = {
  '0036-kept-training-data': {
    up: async (db) => {
      await createKeptTrainingData(db)
      for (const column of ['data_sha256', 'rollouts_sha256']) {
        for (const statement of blobTriggers(['kept_training_data', column, 1])) await sql.raw(statement).execute(db)
      }
    },
  },
}

const createTables: Migration = {
  up: async (db) => {
    for (const statement of [...toStatements(STATEMENTS), ...triggers(CLOCK)]) await sql.raw(statement).execute(db)
  },
}

/** Name → migration, applied in the order of the names. */
export function postgresMigrationsWith(parts: readonly SchemaPart[]): Readonly<Record<string, Migration>> {
  const own = { [SQUASHED]: createTables, ...later(migrationsWith([])), ...OWN_SPELLINGS }
  return mergeMigrations(own, parts, ({ firstTables, migrations, postgresMigrations }) => ({
    ...(firstTables === undefined ? {} : { [SQUASHED]: createFirst(firstTables) }),
    ...later(migrations),
    ...postgresMigrations,
  }))
}

function createFirst({ statements, blobs = [] }: FirstTables): Migration {
  return {
    up: async (db) => {
      const notes = blobs.flatMap(blobTriggers)
      for (const statement of [...toStatements(statements), ...notes]) await sql.raw(statement).execute(db)
    },
  }
}

/** Those that came after the first. */
function later(migrations: Readonly<Record<string, Migration>>): Readonly<Record<string, Migration>> {
  return Object.fromEntries(Object.entries(migrations).filter(([name]) => name > SQUASHED))
}
