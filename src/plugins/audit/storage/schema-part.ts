/**
 * What the database holds of the audit log.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import type { AuditTables } from './tables.js'

const tables: Readonly<Record<keyof AuditTables, TableFacts>> = { audit_events: { isListedById: true } }

export const auditSchema: SchemaPart = {
  tables,
  migrations: { '0061-audit': { up: async (db) => (await import('../migrations/0061-audit.js')).up(db) } },
  postgresMigrations: {},
}
