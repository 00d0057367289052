/**
 * Rows of uploaded files.
 */
import { canonicalId } from '#base/util/ids.js'
import { type Database, databaseNowMs } from './database.js'

export interface FileRecord {
  readonly id: string
  readonly entity: string
  /** Of the key that uploaded it, when that key is bound to one. */
  readonly project: string | null
  readonly filename: string
  readonly purpose: string
  readonly artifact: string | null
  readonly sha256: string
  readonly sizeBytes: number
  readonly createdAtMs: number
}

/** Inserts; an artifact name that is taken inside the entity fails with a unique violation. */
export async function insertFile(db: Database, file: Omit<FileRecord, 'createdAtMs'>): Promise<void> {
  await db
    .insertInto('files')
    .values({
      id: file.id,
      entity: file.entity,
      project: file.project,
      filename: file.filename,
      purpose: file.purpose,
      artifact: file.artifact,
      sha256: file.sha256,
      size_bytes: file.sizeBytes,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** A file of an entity, or of one project of it, by its id or by its artifact name. */
export async function findFile(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null },
  key: { readonly id: string } | { readonly artifact: string },
): Promise<FileRecord | null> {
  let query = db.selectFrom('files').selectAll().where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  const row = await ('id' in key
    ? query.where('id', '=', canonicalId(key.id))
    : query.where('artifact', '=', key.artifact)
  ).executeTakeFirst()
  if (row === undefined) return null
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    filename: row.filename,
    purpose: row.purpose,
    artifact: row.artifact,
    sha256: row.sha256,
    sizeBytes: row.size_bytes,
    createdAtMs: row.created_at_ms,
  }
}
