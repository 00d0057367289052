/**
 * What the database holds of batches: their input and the pieces of their answers stay for as long as rows name them.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { postgres, sqlite } from '../migrations/0053-batches.js'
import type { BatchTables } from './tables.js'

const tables: Readonly<Record<keyof BatchTables, TableFacts>> = {
  batches: { blobs: ['input_sha256'], isListedById: true },
  batch_pieces: { blobs: ['output_sha256', 'error_sha256'] },
}

export const batchSchema: SchemaPart = {
  tables,
  migrations: { '0053-batches': { up: sqlite } },
  postgresMigrations: { '0053-batches': { up: postgres } },
}
