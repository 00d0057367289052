/**
 * The databases that rows are moved between: the source, which nothing writes to meanwhile and which stays as it is, and the target, which has
 * no rows yet. Their schema is this program's.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { ConflictError, NotFoundError, StorageError } from '#base/errors/errors.js'
import { MOVE_MARKER, RESTORE_MARKER } from '#service/storage/data-dir.js'
import { type Database, type OpenDatabase, openDatabase } from '#service/storage/database.js'
import { migrationsWith } from '#service/storage/migrations/index.js'
import type { DatabaseAddress } from '#service/storage/remote-database.js'
import { unknownMigration } from '#service/storage/removed-plugins.js'
import { partsOf, type SchemaPart } from '#service/storage/schema-part.js'
import { hasTable } from '#service/storage/upkeep/catalog.js'
import { assertFits, fitOfDatabase } from '#service/storage/upkeep/ownership.js'
import { countRows } from './copy-rows.js'
import { openForReading } from './read-database.js'

/** Where rows are: a database at an address, or the data directory. */
interface RowsPlace {
  readonly databaseAddress: DatabaseAddress | null
  readonly directory: string | null
}

/** Which rows: the database's own id, and its mark, which grows with every start and while a server works. */
interface RowsIdentity {
  readonly id: string
  readonly mark: number
}

/** The target has what the source has, tables of plugins too (`partsOf`). */
export interface SourceRows extends OpenDatabase, RowsIdentity {}

/** A copy of rows and a look at tables are one statement after the other. */
const CONNECTIONS = 2

/** What people call the place. */
export function nameRows({ databaseAddress, directory }: RowsPlace): string {
  return databaseAddress?.name ?? `"${directory}"`
}

/**
 * Opens the source. The data directory's lock is the caller's; that of a database at an address is held until it is closed.
 *
 * @throws {NotFoundError} `source_not_found`; {ConflictError} `schema_differs`, `database_in_use`; {StorageError} `database_newer`,
 *   `database_unreadable`, `data_dir_incomplete`
 */
export async function openSource(place: RowsPlace, parts: readonly SchemaPart[]): Promise<SourceRows> {
  const name = nameRows(place)
  const { databaseAddress: address, directory } = place
  const opened = address === null ? await openFile(directory ?? '', parts) : await openRemote(address, parts)
  try {
    const known = await opened.db.selectFrom('database_identity').select(['id', 'mark']).executeTakeFirst()
    if (known === undefined) throw notFound(name, 'no server has worked with it yet')
    return { ...opened, ...known }
  } catch (error) {
    await opened.close()
    throw error
  }
}

async function openFile(directory: string, parts: readonly SchemaPart[]): Promise<OpenDatabase> {
  for (const marker of [RESTORE_MARKER, MOVE_MARKER]) {
    if ((await stat(join(directory, marker)).catch(() => null)) === null) continue
    throw new StorageError('data_dir_incomplete', `"${directory}" is not whole: it holds ${marker}`, {
      hint: 'finish what was begun there, or name another directory in --from',
    })
  }
  const path = join(directory, 'trainyard.sqlite3')
  const facts = await stat(path).catch(() => null)
  if (facts === null || facts.size === 0) {
    throw notFound(`"${directory}"`, facts === null ? 'it has no trainyard.sqlite3' : 'it has no rows')
  }
  const opened = await openForReading(path, parts)
  const paths = {
    path: directory,
    databasePath: path,
    blobsPath: join(directory, 'blobs'),
    apiKeyPath: join(directory, 'api-key'),
  }
  try {
    await assertCurrent(opened.db, `"${directory}"`, Object.keys(migrationsWith(parts)))
    await assertFits(await fitOfDatabase(opened.db, paths), paths)
    return opened
  } catch (error) {
    await opened.close()
    throw error
  }
}

async function openRemote(address: DatabaseAddress, parts: readonly SchemaPart[]): Promise<OpenDatabase> {
  return address.open({
    parts,
    maxConnections: CONNECTIONS,
    // what is thrown here leaves the database as it is; where nothing is, there is nothing to migrate
    beforeMigrating: (db) => assertCurrent(db, address.name, address.migrationNames(parts)),
  })
}

async function assertCurrent(db: Database, name: string, expected: readonly string[]): Promise<void> {
  if (!(await hasTable(db, 'kysely_migration'))) throw notFound(name, 'it has no tables of this program')
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db)
  const done = new Set(rows.map((row) => row.name))
  const later = [...done].sort().find((each) => !expected.includes(each))
  if (later !== undefined) throw unknownMigration(name, later)
  const missing = expected.filter((each) => !done.has(each)).sort()
  if (missing.length === 0) return
  throw new ConflictError('schema_differs', `${name} has the schema of an earlier version: it lacks ${missing[0]}`, {
    hint: 'start trainyard serve of this version on it once, which brings it up to date, stop it, then move',
  })
}

function notFound(name: string, reason: string): NotFoundError {
  return new NotFoundError('source_not_found', `${name} holds nothing to move: ${reason}`, {
    hint: 'name the data directory of a service in --from, and where its rows are in PostgreSQL also --from-database',
  })
}

export interface OpenTarget extends OpenDatabase {
  /** The rows of the source are there: a move that was killed behind its last row is at its end. */
  readonly isFilled: boolean
}

/**
 * Opens the target, makes its tables and keeps servers out of it; the data directory's lock is the caller's.
 *
 * @param isBegun an earlier move from this source did not end: its rows may be there
 * @throws {ConflictError} `database_not_empty`, `already_moved`, `database_in_use`; as `openDatabase`, {@link DatabaseAddress.open}
 */
export async function openTarget(place: RowsPlace, source: SourceRows, isBegun: boolean): Promise<OpenTarget> {
  let isFilled = false
  const parts = partsOf(source.db)
  const beforeMigrating = async (db: Database): Promise<void> => {
    isFilled = await isFilledBy(db, place, source, isBegun)
  }
  const opened =
    place.databaseAddress === null
      ? await openDatabase(join(place.directory ?? '', 'trainyard.sqlite3'), { parts, beforeMigrating })
      : await place.databaseAddress.open({ parts, maxConnections: CONNECTIONS, beforeMigrating })
  return { ...opened, isFilled }
}

/** The same questions without a lock, and without a change. @throws as {@link openTarget} */
export async function lookAtTarget(place: RowsPlace, source: SourceRows, isBegun: boolean): Promise<void> {
  if (place.databaseAddress === null) {
    const path = join(place.directory ?? '', 'trainyard.sqlite3')
    if (((await stat(path).catch(() => null))?.size ?? 0) === 0) return
    const opened = await openForReading(path, partsOf(source.db))
    await isFilledBy(opened.db, place, source, isBegun).finally(() => opened.close())
    return
  }
  const opened = await place.databaseAddress.open({ maxConnections: CONNECTIONS, isBeside: true })
  await isFilledBy(opened.db, place, source, isBegun).finally(() => opened.close())
}

/** @returns false for a place without rows, true for one that the move which was begun filled; all else is refused */
async function isFilledBy(db: Database, place: RowsPlace, source: RowsIdentity, isBegun: boolean): Promise<boolean> {
  const found = (await countRows(db)).find(({ rows }) => rows > 0)
  if (found === undefined) return false
  const known = (await hasTable(db, 'database_identity'))
    ? await db.selectFrom('database_identity').select(['id', 'mark']).executeTakeFirst()
    : undefined
  if (known?.id === source.id && known.mark < source.mark) {
    throw new ConflictError('database_not_empty', `${nameRows(place)} holds an earlier state of this source`, {
      hint: 'a server worked on the source since: do not serve what is there, name a new directory or database',
    })
  }
  if (known?.id === source.id) {
    if (isBegun && known.mark === source.mark) return true
    throw new ConflictError('already_moved', `${nameRows(place)} holds the rows of this source already`, {
      hint: 'start trainyard serve on it; to move again, name an empty database or directory',
    })
  }
  throw new ConflictError(
    'database_not_empty',
    `${nameRows(place)} is not empty: ${found.name} has ${found.rows} rows`,
    {
      hint: 'name an empty database, or a directory that is empty or does not exist',
    },
  )
}
