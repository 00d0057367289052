/**
 * Tables of uploads, as Kysely sees them.
 */
import type { Kysely } from 'kysely'
import type { Database } from '#service/storage/database.js'
import type { Schema } from '#service/storage/schema.js'

interface UploadsTable {
  id: string
  entity: string
  /** Of the key that began it, when that key is bound to one. */
  project: string | null
  filename: string
  purpose: string
  /** Of the file that is to come. */
  size_bytes: number
  /** `pending`, `completed`, `cancelled`. */
  status: string
  file_id: string | null
  created_at_ms: number
  expires_at_ms: number
}

interface UploadPartsTable {
  id: string
  upload_id: string
  sha256: string
  size_bytes: number
  created_at_ms: number
}

/** No interface: Kysely wants an index. */
export type UploadTables = {
  uploads: UploadsTable
  upload_parts: UploadPartsTable
}

/** The same database, or open transaction, with these tables. */
export function uploadTables(db: Database): Kysely<Schema & UploadTables> {
  return (db as Kysely<Schema>).withTables<UploadTables>()
}
