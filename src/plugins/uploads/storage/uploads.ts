/**
 * Rows of uploads and their parts.
 */
import { canonicalId } from '#base/util/ids.js'
import type { Tenant } from '#service/operations/access/principal.js'
import type { Database } from '#service/storage/database.js'
import { readOneOf } from '#service/storage/row-values.js'
import { UPLOAD_STATUSES, type UploadStatus } from '../wire.js'
import { uploadTables } from './tables.js'

export interface UploadRecord {
  readonly id: string
  readonly entity: string
  readonly project: string | null
  readonly filename: string
  readonly purpose: string
  readonly sizeBytes: number
  readonly status: UploadStatus
  readonly fileId: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

export interface PartRecord {
  readonly id: string
  readonly uploadId: string
  readonly sha256: string
  readonly sizeBytes: number
  readonly createdAtMs: number
}

export async function insertUpload(db: Database, upload: UploadRecord): Promise<void> {
  await uploadTables(db)
    .insertInto('uploads')
    .values({
      id: upload.id,
      entity: upload.entity,
      project: upload.project,
      filename: upload.filename,
      purpose: upload.purpose,
      size_bytes: upload.sizeBytes,
      status: upload.status,
      file_id: upload.fileId,
      created_at_ms: upload.createdAtMs,
      expires_at_ms: upload.expiresAtMs,
    })
    .execute()
}

export async function findUpload(db: Database, owner: Tenant, id: string): Promise<UploadRecord | null> {
  let query = uploadTables(db).selectFrom('uploads').selectAll().where('id', '=', canonicalId(id))
  query = query.where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  const row = await query.executeTakeFirst()
  if (row === undefined) return null
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    filename: row.filename,
    purpose: row.purpose,
    sizeBytes: row.size_bytes,
    status: readOneOf(UPLOAD_STATUSES, row.status, 'status of an upload'),
    fileId: row.file_id,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
  }
}

/** Open uploads of an entity, and the bytes that they are to become. */
export async function countPending(
  db: Database,
  entity: string,
  nowMs: number,
): Promise<{ readonly count: number; readonly sizeBytes: number }> {
  const row = await uploadTables(db)
    .selectFrom('uploads')
    .select((e) => [e.fn.countAll().as('count'), e.fn.sum('size_bytes').as('size_bytes')])
    .where('entity', '=', entity)
    .where('status', '=', 'pending')
    .where('expires_at_ms', '>', nowMs)
    .executeTakeFirstOrThrow()
  return { count: Number(row.count), sizeBytes: Number(row.size_bytes ?? 0) }
}

/** @returns whether the upload is open; call in a transaction */
export async function insertPart(db: Database, part: PartRecord): Promise<boolean> {
  const open = await uploadTables(db)
    .selectFrom('uploads')
    .select('id')
    .where('id', '=', part.uploadId)
    .where('status', '=', 'pending')
    .executeTakeFirst()
  if (open === undefined) return false
  await uploadTables(db)
    .insertInto('upload_parts')
    .values({
      id: part.id,
      upload_id: part.uploadId,
      sha256: part.sha256,
      size_bytes: part.sizeBytes,
      created_at_ms: part.createdAtMs,
    })
    .execute()
  return true
}

export async function listParts(db: Database, uploadId: string): Promise<readonly PartRecord[]> {
  const rows = await uploadTables(db).selectFrom('upload_parts').selectAll().where('upload_id', '=', uploadId).execute()
  return rows.map((row) => ({
    id: row.id,
    uploadId: row.upload_id,
    sha256: row.sha256,
    sizeBytes: row.size_bytes,
    createdAtMs: row.created_at_ms,
  }))
}

export async function sumParts(
  db: Database,
  uploadId: string,
): Promise<{ readonly count: number; readonly sizeBytes: number }> {
  const row = await uploadTables(db)
    .selectFrom('upload_parts')
    .select((e) => [e.fn.countAll().as('count'), e.fn.sum('size_bytes').as('size_bytes')])
    .where('upload_id', '=', uploadId)
    .executeTakeFirstOrThrow()
  return { count: Number(row.count), sizeBytes: Number(row.size_bytes ?? 0) }
}

export async function extendUpload(db: Database, id: string, expiresAtMs: number): Promise<void> {
  await uploadTables(db).updateTable('uploads').set({ expires_at_ms: expiresAtMs }).where('id', '=', id).execute()
}

/** Completes it, or cancels it where nothing came of it, and lets its parts go; one that is not open any more stays as it is. */
export async function endUpload(db: Database, id: string, fileId: string | null): Promise<void> {
  await uploadTables(db)
    .updateTable('uploads')
    .set({ status: fileId === null ? 'cancelled' : 'completed', file_id: fileId })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .execute()
  await uploadTables(db).deleteFrom('upload_parts').where('upload_id', '=', id).execute()
}

/** Deletes uploads whose time is over, with their parts. @returns how many there were */
export async function deleteExpired(db: Database, nowMs: number): Promise<number> {
  const { numDeletedRows } = await uploadTables(db)
    .deleteFrom('uploads')
    .where('expires_at_ms', '<=', nowMs)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
