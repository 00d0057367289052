/**
 * Does this database belong to this data directory? A database that is empty, lost, of another directory or older than
 * the data does not know what lies there, and a server that used it would let those files be deleted as unneeded.
 *
 * The database has an id and a mark, a number that grows at every start and while a server works; the directory's file
 * `database-mark` repeats both. A database with a lower mark is older than the data, one with another id belongs to
 * another directory. What the rows mean is not known here.
 */
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { sql } from 'kysely'
import { StorageError } from '#base/errors/errors.js'
import { syncFolder } from '#base/sync-folder.js'
import { moveFile } from '#base/util/move-file.js'
import { MARK_FILE } from '../data-dir.js'
import type { Database } from '../database.js'
import { greatest } from '../sql-words.js'
import { hasTable } from './catalog.js'

/** Where things lie in a data directory. */
export interface OwnedPaths {
  readonly path: string
  readonly databasePath: string
  readonly blobsPath: string
  readonly apiKeyPath: string
}

/** What its owner has decided to go on with, for one start. */
export interface Adoption {
  /** Begin anew beside what an empty or missing database has left. */
  readonly ofEmpty: boolean
  /** Take a database that is older than the data, or another directory's, as it is. */
  readonly ofOther: boolean
}

export const NO_ADOPTION: Adoption = { ofEmpty: false, ofOther: false }

/** How a database and the data beside it fit: `ours`, `new` where there is no data; else what is wrong. */
export type Fit = 'ours' | 'new' | 'missing' | 'empty' | 'older' | 'other'

interface Mark {
  readonly id: string
  readonly mark: number
}

/** Before SQLite opens the file: of an empty one it would make a database, and of a log beside it nothing. */
export async function fitOfFile(paths: OwnedPaths): Promise<Fit> {
  const sizeBytes = (await stat(paths.databasePath).catch(() => null))?.size ?? null
  if (sizeBytes !== null && sizeBytes > 0) return 'ours'
  if ((await listEvidence(paths)).length === 0) return 'new'
  return sizeBytes === null ? 'missing' : 'empty'
}

/** What its rows and the directory's mark say; changes neither. */
export async function fitOfDatabase(db: Database, paths: OwnedPaths): Promise<Fit> {
  const known = await readIdentity(db)
  const marked = await readMark(paths.path)
  const isMarked = marked !== null && known !== null && marked.id === known.id
  if (isMarked && known.mark >= marked.mark) return 'ours'
  const hasData = (await listEvidence(paths)).length > 0
  if (!hasData) return 'new'
  if (isMarked) return 'older'
  if (!(await hasRows(db))) return 'empty'
  if (marked === null) return 'ours'
  // a database without an id is of a version that wrote none, so it is from before the mark
  return known === null ? 'older' : 'other'
}

/**
 * Refuses a database that does not fit.
 *
 * @throws {StorageError} `database_unreadable` with what was found and how to go on
 */
export async function assertFits(fit: Fit, paths: OwnedPaths, adoption: Adoption = NO_ADOPTION): Promise<void> {
  if (fit === 'ours' || fit === 'new') return
  const isLost = fit === 'missing' || fit === 'empty'
  if (isLost ? adoption.ofEmpty : adoption.ofOther) {
    await setLogAside(fit, paths)
    return
  }
  throw new StorageError('database_unreadable', `database "${paths.databasePath}" ${await describe(fit, paths)}`, {
    hint: isLost
      ? 'put the database back, or restore a backup into a new directory; trainyard verify --data-dir lists what is there; trainyard serve --adopt-empty begins anew on purpose and deletes nothing'
      : 'put the newest database back, or restore a backup into a new directory; trainyard verify --data-dir lists what is there; trainyard serve --adopt-database goes on with this one and deletes nothing that it does not know',
  })
}

/** What a person is told about a database that does not fit, after its name. */
export async function describe(fit: Fit, paths: OwnedPaths): Promise<string> {
  const beside = `the data directory holds ${(await listEvidence(paths)).join(', ')}`
  switch (fit) {
    case 'missing':
      return `is missing, and ${beside}`
    case 'empty':
      return `has no rows, and ${beside}`
    case 'older':
      return `is older than the data beside it: ${beside}, and was used with a later state of this database`
    case 'other':
      return `is not the one of this data directory: ${beside}, and its ${MARK_FILE} names another database`
    default:
      return 'fits the data beside it'
  }
}

/**
 * Makes the directory this database's, and its mark the greatest there was: first in the database, then in the directory, so that a
 * crash between leaves a database that is newer, never one that looks older.
 */
export async function claimDirectory(db: Database, root: string, newId: () => string): Promise<void> {
  const known = await readIdentity(db)
  const marked = await readMark(root)
  const id = known?.id ?? newId()
  const least = Math.max(known?.mark ?? 0, marked?.id === id ? marked.mark : 0) + 1
  // another server may have done the same meanwhile: it never becomes less
  const { mark } = await db
    .insertInto('database_identity')
    .values({ id, mark: least })
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((e) => ({
        mark: greatest(sql<number>`${e.ref('database_identity.mark')} + 1`, sql<number>`${e.ref('excluded.mark')}`),
      })),
    )
    .returning('mark')
    .executeTakeFirstOrThrow()
  const path = join(root, MARK_FILE)
  await writeFile(`${path}.tmp`, `${JSON.stringify({ database: id, mark })}\n`, { mode: 0o600, flush: true })
  await moveFile(`${path}.tmp`, path)
  await syncFolder(root)
}

/** Parts of the directory that only a server with rows can have made, for people. */
async function listEvidence(paths: OwnedPaths): Promise<readonly string[]> {
  const evidence: string[] = []
  const blobs = await countBlobs(join(paths.blobsPath, 'sha256'))
  if (blobs > 0) evidence.push(`${blobs} blob${blobs === 1 ? '' : 's'}`)
  if (((await stat(paths.apiKeyPath).catch(() => null))?.size ?? 0) > 0) evidence.push('an api-key')
  const log = await stat(`${paths.databasePath}-wal`).catch(() => null)
  const isEmpty = ((await stat(paths.databasePath).catch(() => null))?.size ?? 0) === 0
  if (isEmpty && (log?.size ?? 0) > 0) evidence.push(`a ${basename(paths.databasePath)}-wal`)
  return evidence
}

async function countBlobs(root: string): Promise<number> {
  let count = 0
  for (const prefix of await readdir(root).catch(() => [])) {
    count += (await readdir(join(root, prefix)).catch(() => [])).length
  }
  return count
}

/** SQLite deletes a log whose database has no pages; it may be all that is left of the rows. */
async function setLogAside(fit: Fit, { databasePath }: OwnedPaths): Promise<void> {
  const log = `${databasePath}-wal`
  const isEmpty = ((await stat(databasePath).catch(() => null))?.size ?? 0) === 0
  if ((fit !== 'missing' && fit !== 'empty') || !isEmpty || ((await stat(log).catch(() => null))?.size ?? 0) === 0)
    return
  await moveFile(log, await unusedName(`${log}.kept`))
}

/** `path`-1, `path`-2 …: the first that is not there. */
export async function unusedName(path: string): Promise<string> {
  for (let count = 1; ; count += 1) {
    const name = `${path}-${count}`
    if ((await stat(name).catch(() => null)) === null) return name
  }
}

/** Null for a database without one: of an earlier version, or without tables. */
async function readIdentity(db: Database): Promise<Mark | null> {
  if (!(await hasTable(db, 'database_identity'))) return null
  return (await db.selectFrom('database_identity').select(['id', 'mark']).executeTakeFirst()) ?? null
}

/** Tables without which nothing can have been made. */
async function hasRows(db: Database): Promise<boolean> {
  for (const table of ['api_keys', 'models', 'training_jobs', 'files'] as const) {
    if (!(await hasTable(db, table))) continue
    const { rows } = await sql`select 1 from ${sql.table(table)} limit 1`.execute(db)
    if (rows.length > 0) return true
  }
  return false
}

/** Null where there is none, as in a directory of an earlier version or a restored one; torn it cannot be, it is renamed into place. */
async function readMark(root: string): Promise<Mark | null> {
  try {
    const value: unknown = JSON.parse(await readFile(join(root, MARK_FILE), 'utf8'))
    if (typeof value !== 'object' || value === null || !('database' in value) || !('mark' in value)) return null
    const { database, mark } = value
    return typeof database === 'string' && typeof mark === 'number' ? { id: database, mark } : null
  } catch {
    return null
  }
}
