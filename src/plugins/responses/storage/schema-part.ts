/**
 * What the database holds of stored responses.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import type { ResponseTables } from './tables.js'

const tables: Readonly<Record<keyof ResponseTables, TableFacts>> = { stored_responses: {}, stored_response_items: {} }

export const responseSchema: SchemaPart = {
  tables,
  migrations: {
    '0044-stored-responses': { up: async (db) => (await import('../migrations/0044-stored-responses.js')).up(db) },
  },
  postgresMigrations: {},
}
