/**
 * Rows of uploaded files.
 */
import type { Selectable } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import { type Database, databaseNowMs } from './database.js'
import { type Page, type PageOptions, toPage, unknownCursor } from './paging.js'
import { storableText } from './row-values.js'
import type { FilesTable } from './schema.js'

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
  /** What is wrong with its rows, as a sentence; null for nothing, and where nobody looked. */
  readonly problem: string | null
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
      problem: storableText(file.problem),
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
  return row === undefined ? null : toFile(row)
}

/** Files of an entity, or of one project of it. Upload order is the order of ids. */
export async function listFiles(
  db: Database,
  owner: { readonly entity: string; readonly project: string | null },
  options: PageOptions & { readonly order: 'asc' | 'desc'; readonly purpose?: string | undefined },
): Promise<Page<FileRecord>> {
  let query = db.selectFrom('files').selectAll().where('entity', '=', owner.entity)
  if (owner.project !== null) query = query.where('project', '=', owner.project)
  if (options.purpose !== undefined) query = query.where('purpose', '=', options.purpose)
  if (options.after !== undefined) {
    if ((await findFile(db, owner, { id: options.after })) === null) throw unknownCursor(options.after)
    query = query.where('id', options.order === 'asc' ? '>' : '<', options.after)
  }
  const rows = await query
    .orderBy('id', options.order)
    .limit(options.limit + 1)
    .execute()
  return toPage(rows, options.limit, toFile)
}

export async function deleteFileRow(db: Database, id: string): Promise<void> {
  await db.deleteFrom('files').where('id', '=', id).execute()
}

function toFile(row: Selectable<FilesTable>): FileRecord {
  return {
    id: row.id,
    entity: row.entity,
    project: row.project,
    filename: row.filename,
    purpose: row.purpose,
    artifact: row.artifact,
    sha256: row.sha256,
    sizeBytes: row.size_bytes,
    problem: row.problem,
    createdAtMs: row.created_at_ms,
  }
}
