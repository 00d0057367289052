/**
 * A copy of a database that others have open and write: SQLite's online backup, as of one moment.
 */
import { stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Kysely, SqliteDialect } from 'kysely'
import { AppError, StorageError } from '#base/errors/errors.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import { unknownMigration } from '#service/storage/removed-plugins.js'
import type { Schema } from '#service/storage/schema.js'
import { type SchemaPart, withParts } from '#service/storage/schema-part.js'
import { openSqlite, type Sqlite } from '#service/storage/sqlite.js'
import { readBlobPlace } from '#service/storage/upkeep/blob-place.js'
import { listReferencedBlobs } from '#service/storage/upkeep/blob-references.js'

/** All pages in one step: while steps leave pauses, each write of somebody else starts the copy anew. */
const ALL_PAGES = 2 ** 31 - 1

/** What a copied database says about itself. */
export interface SnapshotFacts {
  /** Its newest migration. */
  readonly schema: string
  /** Digests of the blobs that its rows name. */
  readonly blobs: ReadonlySet<string>
  /** Where these are kept; null: the data directory. */
  readonly blobStore: string | null
}

/**
 * Copies a database to `target`, which must not exist.
 *
 * @throws {StorageError} `database_unreadable`
 */
export async function copyDatabase(path: string, target: string): Promise<void> {
  const source = openSqlite(path, { fileMustExist: true, timeout: 10_000 })
  try {
    await source.backup(target, { progress: () => ALL_PAGES })
  } catch (cause) {
    throw (await noRoom(path, target, cause)) ?? unreadable(path, cause)
  } finally {
    source.close()
  }
  const copy = openSqlite(target)
  // one file, without companions
  copy.pragma('journal_mode = DELETE')
  copy.close()
}

/** SQLite calls a full disk an error of reading or writing too, so the room is looked at. */
async function noRoom(path: string, target: string, cause: unknown): Promise<AppError | null> {
  const [{ size }, { bavail, bsize }] = await Promise.all([stat(path), statfs(dirname(target))])
  if (bavail * bsize >= size) return null
  const problem = `the data directory has no room for the copy of the database that a backup begins with, ${size} bytes`
  return new AppError('unavailable', 'disk_full', problem, { hint: 'free some space and try again', cause })
}

/**
 * Reads a copy, all of it checked.
 *
 * @throws {StorageError} `database_unreadable`, and `database_newer` if this version of the program does not know its schema
 */
export async function readSnapshot(path: string, parts: readonly SchemaPart[]): Promise<SnapshotFacts> {
  const sqlite = openSqlite(path, { readonly: true, fileMustExist: true })
  const db = withParts(new Kysely<Schema>({ dialect: new SqliteDialect({ database: sqlite }) }), parts)
  try {
    const verdict: unknown = sqlite.pragma('integrity_check(1)', { simple: true })
    if (verdict !== 'ok') throw new Error(String(verdict))
    const schema = assertKnownSchema(sqlite, parts)
    return { schema, blobs: await listReferencedBlobs(db), blobStore: await readBlobPlace(db) }
  } catch (cause) {
    throw cause instanceof StorageError ? cause : unreadable(path, cause)
  } finally {
    await db.destroy()
  }
}

/**
 * @returns the newest migration
 * @throws {StorageError} `database_newer` if this version of the program does not know it
 */
export function assertKnownSchema(sqlite: Sqlite, parts: readonly SchemaPart[]): string {
  const known = migrationsWith(parts)
  const names = sqlite.prepare('select name from kysely_migration order by name').pluck().all() as string[]
  const unknown = names.find((name) => !Object.hasOwn(known, name))
  if (unknown !== undefined) throw unknownMigration('the database', unknown)
  return names.at(-1) ?? ''
}

function unreadable(path: string, cause: unknown): StorageError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new StorageError('database_unreadable', `database "${path}" cannot be read: ${reason}`, { cause })
}
