/**
 * What the database holds of recorded rollouts.
 */
import { sql } from 'kysely'
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { type RecordingTables, recordingTables } from './tables.js'

const tables: Readonly<Record<keyof RecordingTables, TableFacts>> = {
  recorded_rollouts: { blobs: ['body_sha256'], isListedById: true },
  recorded_calls: { blobs: ['body_sha256'] },
}

export const recordingSchema: SchemaPart = {
  tables,
  // loaded when they run: a database is made once, and opened at every start
  migrations: {
    '0059-recorded-rollouts': {
      up: async (db) => (await import('../migrations/0059-recorded-rollouts.js')).sqlite(db),
    },
  },
  postgresMigrations: {
    '0059-recorded-rollouts': {
      up: async (db) => (await import('../migrations/0059-recorded-rollouts.js')).postgres(db),
    },
  },
  moveWaits: async (db, byMs) => {
    await recordingTables(db)
      .updateTable('recorded_rollouts')
      .set({ expires_at_ms: sql<number>`expires_at_ms - ${sql.lit(byMs)}` })
      .where('ended_at_ms', 'is', null)
      .execute()
  },
}
