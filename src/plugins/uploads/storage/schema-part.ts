/**
 * What the database holds of uploads: a part's blob stays for as long as its row.
 */
import type { SchemaPart, TableFacts } from '#service/storage/schema-part.js'
import { postgres, sqlite } from '../migrations/0052-uploads.js'
import type { UploadTables } from './tables.js'

const tables: Readonly<Record<keyof UploadTables, TableFacts>> = { uploads: {}, upload_parts: { blobs: ['sha256'] } }

export const uploadSchema: SchemaPart = {
  tables,
  migrations: { '0052-uploads': { up: sqlite } },
  postgresMigrations: { '0052-uploads': { up: postgres } },
}
