/**
 * What the database holds of the gateway.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import type { GatewayTables } from './tables.js'

const tables: Readonly<Record<keyof GatewayTables, TableFacts>> = {
  gateway_routes: { isListedById: true },
  gateway_calls: { isListedById: true },
}

export const gatewaySchema: SchemaPart = {
  tables,
  migrations: { '0060-gateway': { up: async (db) => (await import('../migrations/0060-gateway.js')).up(db) } },
  postgresMigrations: {},
}
