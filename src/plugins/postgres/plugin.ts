/**
 * Rows in PostgreSQL, which several servers may share.
 */
import { definePlugin } from '#service/define-plugin.js'

export const postgres = definePlugin({
  name: 'postgres',
  databases: [
    {
      schemes: ['postgres', 'postgresql'],
      example: 'postgres://trainyard@db.internal:5432/trainyard',
      read: async (address) => (await import('./storage/open-postgres.js')).readDatabaseAddress(address),
    },
  ],
})
